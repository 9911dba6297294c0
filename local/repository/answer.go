package repository

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Changed answers rules:changes, whose patterns have their variables expanded. As on GitLab, the answer is yes where there is
// nothing to compare with.
func (f *Facts) Changed(ctx context.Context, c when.Changes) (when.Answer, error) {
	base, how := f.Base, f.BaseWhy
	if c.CompareTo != "" {
		var err error
		if base, how, err = f.compareTo(ctx, c.CompareTo); err != nil {
			return when.Answer{}, err
		}
	}
	if base == "" {
		return when.Answer{Yes: true, Why: how}, nil
	}
	changed, err := f.repository.Changed(ctx, base)
	if err != nil {
		return when.Answer{}, err
	}
	v, err := glob.Changes(c.Paths, changed)
	switch {
	case err != nil:
		return when.Answer{}, err
	case v.Assumed:
		return when.Answer{Yes: true, Why: fmt.Sprintf("%d files were changed %s, too many to compare", len(changed), how)}, nil
	case v.Match:
		return when.Answer{Yes: true, Why: fmt.Sprintf("%s was changed %s", shown(v.File), how)}, nil
	case len(changed) == 0:
		return when.Answer{Why: "nothing was changed " + how}, nil
	}
	return when.Answer{Why: fmt.Sprintf("%s was changed %s", none(c.Paths), how)}, nil
}

// compareTo finds the commit for `compare_to`: where the branch left that ref.
func (f *Facts) compareTo(ctx context.Context, ref string) (base, how string, err error) {
	r := f.repository
	if !r.Git || r.Commit == nil {
		return "", "there is no commit to compare with", nil
	}
	commit, err := r.comparable(ctx, ref)
	if err != nil {
		return "", "", fmt.Errorf("compare_to: %w", err)
	}
	base, err = r.question(ctx, "merge-base", "HEAD", commit)
	if err != nil {
		return "", "", err
	}
	if base == "" {
		return "", "no commit is known that the branch has in common with " + ref, nil
	}
	return base, "since it left " + strings.TrimPrefix(ref, "refs/heads/"), nil
}

// Exists answers rules:exists, whose patterns have their variables expanded.
func (f *Facts) Exists(ctx context.Context, e when.Exists) (when.Answer, error) {
	files, where, err := f.filesOf(ctx, e)
	if err != nil {
		return when.Answer{}, err
	}
	v, err := glob.Exists(e.Paths, files)
	switch {
	case err != nil:
		return when.Answer{}, err
	case v.Assumed:
		return when.Answer{Yes: true, Why: fmt.Sprintf("there are %d files%s, too many to compare", len(files), where)}, nil
	case v.Match:
		return when.Answer{Yes: true, Why: fmt.Sprintf("%s exists%s", shown(v.File), where)}, nil
	}
	return when.Answer{Why: none(e.Paths) + " exists" + where}, nil
}

// filesOf lists the files that `exists` is about, and says where they are.
func (f *Facts) filesOf(ctx context.Context, e when.Exists) (files []string, where string, err error) {
	project := strings.Trim(e.Project, "/")
	if project == "" || project == string(f.repository.Project) && e.Ref == "" {
		files, err = f.repository.Files(ctx)
		return files, "", err
	}
	where = " in " + project
	if e.Ref != "" {
		where += "@" + e.Ref
	}
	if f.ProjectFiles == nil {
		return nil, "", fmt.Errorf("whether files exist%s cannot be told here: the files of other projects are not at hand", where)
	}
	files, err = f.ProjectFiles(ctx, project, e.Ref)
	if err != nil {
		return nil, "", fmt.Errorf("looking for files%s: %w", where, err)
	}
	return files, where, nil
}

// none names the patterns that none of some files matches.
func none(patterns []string) string {
	switch {
	case len(patterns) == 1:
		return fmt.Sprintf("no %s", shown(patterns[0]))
	case len(patterns) == 0:
		return "no file"
	}
	return fmt.Sprintf("none of %s and %d more", shown(patterns[0]), len(patterns)-1)
}

// shown is a file's name as people can read it: in quotes where it holds what a screen cannot show.
func shown(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.Quote(name)
	}
	return name
}
