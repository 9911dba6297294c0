package git

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/source"
)

// minShortCommit is how many digits of a commit's name are enough to mean a commit.
const minShortCommit = 7

// checkRevision refuses what cannot be the name of a tag, a branch or a commit.
func checkRevision(rev string) error {
	const maxRevision = 1024
	switch {
	case rev == "":
		return errors.New("it names no revision")
	case len(rev) > maxRevision:
		return fmt.Errorf("the revision is longer than %d bytes", maxRevision)
	case strings.HasPrefix(rev, "-"):
		return errors.New("a revision cannot begin with a dash")
	case strings.Contains(rev, ".."), strings.Contains(rev, "@{"):
		return errors.New("a revision is a tag, a branch or a commit; ranges and times are not")
	case strings.ContainsFunc(rev, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }):
		return errors.New("a revision is a tag, a branch or a commit; it cannot have spaces or any of ~ ^ : ? * [ \\")
	}
	return nil
}

// find looks for a revision among what a repository offers; see the package's documentation for the order. ok is false where
// that does not tell. The error is about a short commit that could be several.
func (r *refs) find(rev string) (commit plumbing.Hash, ok bool, err error) {
	names := []string{tagsPrefix + rev, headsPrefix + rev}
	switch {
	case rev == "HEAD":
		names = []string{"HEAD"}
	case strings.HasPrefix(rev, "refs/"):
		names = append(names, rev)
	}
	for _, name := range names {
		if commit, ok := r.commit(name); ok {
			return commit, true, nil
		}
	}
	if !isShortCommit(rev) {
		return plumbing.ZeroHash, false, nil
	}
	var found []plumbing.Hash
	for name := range r.names {
		if h, _ := r.commit(name); strings.HasPrefix(h.String(), strings.ToLower(rev)) {
			found = append(found, h)
		}
	}
	return onlyOne(rev, found)
}

func isShortCommit(rev string) bool {
	return len(rev) >= minShortCommit && len(rev) < 40 && isHex(strings.ToLower(rev))
}

// maxCandidates is how many commits an error lists.
const maxCandidates = 5

// onlyOne returns the commit that was found; several are an error.
func onlyOne(rev string, found []plumbing.Hash) (commit plumbing.Hash, ok bool, err error) {
	plumbing.HashesSort(found)
	found = slices.Compact(found)
	switch len(found) {
	case 0:
		return plumbing.ZeroHash, false, nil
	case 1:
		return found[0], true, nil
	}
	var names []string
	for _, h := range found[:min(len(found), maxCandidates)] {
		names = append(names, h.String())
	}
	if len(found) > maxCandidates {
		names = append(names, fmt.Sprintf("%d more", len(found)-maxCandidates))
	}
	return plumbing.ZeroHash, false, fmt.Errorf("%q could be any of several commits: %s; give more digits", rev, strings.Join(names, ", "))
}

// notFound says that a repository does not have a revision, and which one it has that could have been meant.
func (r *refs) notFound(at *source.Location) error {
	tags, branches := r.short(tagsPrefix), r.short(headsPrefix)
	looked := []string{
		fmt.Sprintf("a tag (there %s)", count(len(tags), "is", "are")),
		fmt.Sprintf("a branch (there %s)", count(len(branches), "is", "are")),
	}
	if isShortCommit(at.Rev) {
		looked = append(looked, "a commit that begins with it")
	}
	var why error
	slices.Sort(tags)
	slices.Sort(branches)
	if near := diag.Suggest(at.Rev, slices.Concat(tags, branches)); near != "" {
		why = fmt.Errorf("did you mean %q?", near)
	} else if isHex(strings.ToLower(at.Rev)) && len(at.Rev) < minShortCommit {
		why = fmt.Errorf("a commit needs at least %d digits of its name", minShortCommit)
	}
	return &source.NotFoundError{Ref: place(at), Looked: looked, Err: why}
}

func count(n int, is, are string) string {
	switch n {
	case 0:
		return are + " none"
	case 1:
		return is + " 1"
	}
	return fmt.Sprintf("%s %d", are, n)
}
