package repository

import (
	"context"
	"fmt"
	"slices"
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
	var v glob.Verdict
	if c.Regexp != "" {
		v, err = matching(c.Regexp, changed)
	} else {
		v, err = glob.Changes(c.Paths, changed)
	}
	switch {
	case err != nil:
		return when.Answer{}, err
	case v.Assumed:
		return when.Answer{Yes: true, Why: fmt.Sprintf("%d files changed %s, too many to compare", len(changed), how)}, nil
	case v.Match:
		return when.Answer{Yes: true, Why: fmt.Sprintf("%s was changed %s", shown(v.File), how)}, nil
	case len(changed) == 0:
		return when.Answer{Why: "nothing changed " + how}, nil
	}
	return when.Answer{Why: fmt.Sprintf("%s was changed %s", none(c.Paths, c.Regexp), how)}, nil
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
		return "", "the branch has no known common ancestor with " + ref, nil
	}
	return base, "since it left " + strings.TrimPrefix(ref, "refs/heads/"), nil
}

// Exists answers rules:exists, whose patterns have their variables expanded.
func (f *Facts) Exists(ctx context.Context, e when.Exists) (when.Answer, error) {
	files, where, err := f.filesOf(ctx, e)
	if err != nil {
		return when.Answer{}, err
	}
	v, err := existing(e, files)
	switch {
	case err != nil:
		return when.Answer{}, err
	case v.Assumed:
		return when.Answer{Yes: true, Why: fmt.Sprintf("there are %d files%s, too many to compare", len(files), where)}, nil
	case v.Match:
		return when.Answer{Yes: true, Why: fmt.Sprintf("%s exists%s", shown(v.File), where)}, nil
	}
	return when.Answer{Why: none(e.Paths, e.Regexp) + " exists" + where}, nil
}

// existing looks for what `exists` asks for. files are sorted.
func existing(e when.Exists, files []string) (glob.Verdict, error) {
	if e.Regexp != "" {
		return matching(e.Regexp, files)
	}
	top := true
	for _, path := range e.Paths {
		top = top && !strings.Contains(path, "/") && !strings.Contains(path, "**")
		if !strings.HasSuffix(path, "/") || strings.ContainsAny(path, "*?[{") {
			continue
		}
		if at, _ := slices.BinarySearch(files, path); at < len(files) && strings.HasPrefix(files[at], path) {
			return glob.Verdict{Match: true, Pattern: path, File: path}, nil
		}
	}
	if top { // patterns that need no more look at no more, which counts where there are very many files
		files = slices.DeleteFunc(slices.Clone(files), func(file string) bool { return strings.Contains(file, "/") })
	}
	return glob.Exists(e.Paths, files)
}

// matching holds the pattern of `regexp:` against files.
func matching(pattern string, files []string) (glob.Verdict, error) {
	re, err := when.CompilePaths(pattern)
	if err != nil {
		return glob.Verdict{}, fmt.Errorf("regexp: %w", err)
	}
	if len(files) > when.MaxMatchedFiles {
		return glob.Verdict{Match: true, Assumed: true}, nil
	}
	for _, file := range files {
		if re.MatchString(file) {
			return glob.Verdict{Match: true, Pattern: pattern, File: file}, nil
		}
	}
	return glob.Verdict{}, nil
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
		return nil, "", fmt.Errorf("cannot check whether files exist%s: the files of other projects are not available", where)
	}
	files, err = f.ProjectFiles(ctx, project, e.Ref)
	if err != nil {
		return nil, "", fmt.Errorf("looking for files%s: %w", where, err)
	}
	return files, where, nil
}

// none names the patterns that none of some files matches.
func none(patterns []string, pattern string) string {
	switch {
	case pattern != "":
		return "no file that matches " + shown("/"+pattern+"/")
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
