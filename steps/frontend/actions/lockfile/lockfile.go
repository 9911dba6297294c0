// Package lockfile reads and writes the lock file of GitHub's workflows, .github/workflows/actions.lock: for each workflow the actions and
// reusable workflows that it depends on, also through others, and the commit that each of them is.
//
// The format is GitHub's own, of the versions 0.0.1 to 0.0.3, as it documents it beside its tool (gh actions-lock). What is written is
// 0.0.2, the last version whose schema is published. GitHub wants the numbers of owners and repositories in it, which only its API knows:
// Encode refuses to write a file that lacks some, because GitHub discards such a file as a whole. A lock of ours, for every kind of source,
// is steps/source/lock.
package lockfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
)

const (
	// Path is where the file is in a repository.
	Path = ".github/workflows/actions.lock"
	// Version is the version of the format that Encode writes.
	Version = "v0.0.2"
	// MaxSize bounds the file, in bytes.
	MaxSize = 1 << 20
)

// File is a lock file.
type File struct {
	Version string
	// Workflows are the locked workflows by their path in the repository, each with the keys of all that it depends on.
	Workflows map[string][]string
	// Dependencies are what is depended on, by key: "owner/name@ref", with the owner and the name in lower case.
	Dependencies map[string]Dependency
}

// Dependency is a repository at a ref, and what that was when it was locked.
type Dependency struct {
	Ref     string // the tag or branch that the commit was found by
	Commit  string // in hexadecimal: SHA-1, or SHA-256
	OwnerID int64  // GitHub's number of the owner; 0 is not known
	RepoID  int64  // GitHub's number of the repository; 0 is not known
	Uses    []string
}

// Key returns the key of a repository ("owner/name") at a ref.
func Key(repository, ref string) string { return strings.ToLower(repository) + "@" + ref }

// New returns a file that locks nothing.
func New() *File {
	return &File{Version: Version, Workflows: map[string][]string{}, Dependencies: map[string]Dependency{}}
}

// Locks reports whether the workflow is locked: then all that it depends on must be in the file.
func (f *File) Locks(workflow string) bool {
	_, ok := f.Workflows[workflow]
	return ok
}

// Commit returns the commit that a repository at a ref is, in a workflow that is locked. For a workflow that is not, it is "". It is an error
// when a locked workflow depends on what the file does not have.
func (f *File) Commit(workflow, repository, ref string) (string, error) {
	if !f.Locks(workflow) {
		return "", nil
	}
	key := Key(repository, ref)
	if d, ok := f.Dependencies[key]; ok && slices.Contains(f.Workflows[workflow], key) {
		return d.Commit, nil
	}
	return "", fmt.Errorf("%s locks %s, and has no %s for it; lock it again", Path, workflow, key)
}

// Lock notes that a workflow depends on a repository at a ref. With the same key, what is not known of the new dependency is taken from
// the old one.
func (f *File) Lock(workflow, repository, ref string, d Dependency) {
	key := Key(repository, ref)
	if old, ok := f.Dependencies[key]; ok {
		if d.OwnerID == 0 || d.RepoID == 0 {
			d.OwnerID, d.RepoID = old.OwnerID, old.RepoID
		}
	}
	f.Dependencies[key] = d
	if !slices.Contains(f.Workflows[workflow], key) {
		f.Workflows[workflow] = append(f.Workflows[workflow], key)
	}
}

// Prune removes the workflows that are not named, and the dependencies that no workflow has.
func (f *File) Prune(workflows ...string) {
	maps.DeleteFunc(f.Workflows, func(path string, _ []string) bool { return !slices.Contains(workflows, path) })
	maps.DeleteFunc(f.Dependencies, func(key string, _ Dependency) bool {
		for _, keys := range f.Workflows {
			if slices.Contains(keys, key) {
				return false
			}
		}
		return true
	})
}

// Incomplete returns the keys of the dependencies whose owner's and repository's numbers are not known.
func (f *File) Incomplete() []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(f.Dependencies)) {
		if d := f.Dependencies[key]; d.OwnerID < 1 || d.RepoID < 1 {
			keys = append(keys, key)
		}
	}
	return keys
}

const header = `# This file is machine-generated, in the format of gh actions-lock.
# Do not edit it by hand: lock the workflows again.
`

// Encode returns the text of the file. The same content always gives the same text. It is an error when something is not known that GitHub
// demands.
func (f *File) Encode() ([]byte, error) {
	if missing := f.Incomplete(); len(missing) > 0 {
		return nil, fmt.Errorf("%s needs GitHub's numbers of the owner and the repository of %s, which only its API knows; let gh actions-lock add them", Path, strings.Join(missing, ", "))
	}
	var b strings.Builder
	b.WriteString(header)
	b.WriteString("version: " + quoted(Version) + "\n")
	if len(f.Workflows) > 0 {
		b.WriteString("workflows:\n")
	}
	for _, path := range slices.Sorted(maps.Keys(f.Workflows)) {
		writeList(&b, "    "+quoted(path)+":", f.Workflows[path])
	}
	if len(f.Dependencies) > 0 {
		b.WriteString("dependencies:\n")
	}
	for _, key := range slices.Sorted(maps.Keys(f.Dependencies)) {
		d := f.Dependencies[key]
		fmt.Fprintf(&b, "    %s:\n        ref: %s\n        commit: %s\n", quoted(key), quoted(d.Ref), quoted(algorithm(d.Commit)+"-"+d.Commit))
		b.WriteString("        owner_id: " + strconv.FormatInt(d.OwnerID, 10) + "\n        repo_id: " + strconv.FormatInt(d.RepoID, 10) + "\n")
		if len(d.Uses) > 0 {
			writeList(&b, "        uses:", d.Uses)
		}
	}
	if b.Len() > MaxSize {
		return nil, fmt.Errorf("%s would be longer than %d bytes, which is GitHub's limit", Path, MaxSize)
	}
	return []byte(b.String()), nil
}

// writeList writes a key and a list below it, sorted; an empty one in brackets.
func writeList(b *strings.Builder, key string, items []string) {
	b.WriteString(key)
	if len(items) == 0 {
		b.WriteString(" []\n")
		return
	}
	b.WriteByte('\n')
	indent := strings.Repeat(" ", len(key)-len(strings.TrimLeft(key, " "))+4)
	for _, item := range slices.Sorted(slices.Values(items)) {
		b.WriteString(indent + "- " + quoted(item) + "\n")
	}
}

// quoted writes a string so that no reader of YAML takes it for something else.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// algorithm says which hash a commit is of.
func algorithm(commit string) string {
	if len(commit) == sha256Length {
		return "sha256"
	}
	return "sha1"
}

// sha256Length is how many digits a commit of SHA-256 has; others are of SHA-1.
const sha256Length = 64

var (
	keyPattern    = lazyregexp.New(`^[^/@:\s]+/[^/@:\s]+@[^:\s@]+$`)
	commitPattern = lazyregexp.New(`^(?:sha1-[0-9a-fA-F]{40}|sha256-[0-9a-fA-F]{64})$`)
	fullCommit    = lazyregexp.New(`^(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
)
