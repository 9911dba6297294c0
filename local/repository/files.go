package repository

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/gitquery"
	"github.com/rungci/rung/internal/projectfile"
)

// StateFolder is the folder of a project in which local runs keep what they made. What is not committed of it is not part of the
// project.
const StateFolder = ".rung"

// submoduleMode is what Git writes for the mode of a submodule.
const submoduleMode = "160000"

// entry is a file of the project.
type entry struct {
	name string
	blob string // what the index has; "" for a file that Git does not know
}

// listing is all files of the project.
type listing struct {
	entries   []entry // in the order of the bytes of their names
	names     []string
	untracked []string
}

// Files returns the files of the project, in the order of the bytes of their names: those that Git tracks and that are there, and
// those that it neither tracks nor ignores. Names are bytes, relative to Root, with slashes. Do not change the result.
func (r *Repository) Files(ctx context.Context) ([]string, error) {
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	return l.names, nil
}

func (r *Repository) list(ctx context.Context) (*listing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listing != nil {
		return r.listing, nil
	}
	var l *listing
	var err error
	if r.Git {
		l, err = r.listGit(ctx)
	} else {
		l, err = r.walk(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the project's files: %w", err)
	}
	slices.SortFunc(l.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	l.entries = slices.CompactFunc(l.entries, func(a, b entry) bool { return a.name == b.name }) // of a conflict, each side is listed
	l.names = make([]string, len(l.entries))
	for i, e := range l.entries {
		l.names[i] = e.name
	}
	r.listing = l
	return l, nil
}

// listGit reads the index and the work tree. Git prints "? name" for a file that it does not know and, for the others, a letter
// and "mode blob stage" before a tab and the name; those that were removed come once more, with an R.
func (r *Repository) listGit(ctx context.Context) (*listing, error) {
	out, err := r.git(ctx, "ls-files", "-z", "-t", "--stage", "--cached", "--deleted", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	l := &listing{}
	removed := map[string]bool{}
	for line := range strings.SplitSeq(out, "\x00") {
		if len(line) < 3 {
			continue
		}
		kind, rest := line[0], line[2:]
		if kind == '?' {
			// A name with a slash at its end is another repository.
			if !strings.HasSuffix(rest, "/") && !inState(rest) {
				l.entries = append(l.entries, entry{name: rest})
				l.untracked = append(l.untracked, rest)
			}
			continue
		}
		info, name, _ := strings.Cut(rest, "\t")
		mode, info, _ := strings.Cut(info, " ")
		blob, _, _ := strings.Cut(info, " ")
		switch {
		case kind == 'R':
			removed[name] = true
		case mode != submoduleMode:
			l.entries = append(l.entries, entry{name, blob})
		}
	}
	if len(removed) > 0 {
		l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return removed[e.name] })
	}
	return l, nil
}

// inState reports whether a file is part of what local runs keep.
func inState(name string) bool {
	return name == StateFolder || strings.HasPrefix(name, StateFolder+"/")
}

// walk lists a folder that is not a repository, or one that there is no git to ask about.
func (r *Repository) walk(ctx context.Context) (*listing, error) {
	l := &listing{}
	err := filepath.WalkDir(r.Root, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if d != nil && path != r.Root { // a folder that we may not look into holds nothing for us
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(r.Root, path)
		if err != nil {
			return err
		}
		if name := filepath.ToSlash(rel); d.IsDir() {
			if name == ".git" || name == StateFolder {
				return fs.SkipDir
			}
		} else if d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0 {
			l.entries = append(l.entries, entry{name: name})
		}
		return nil
	})
	return l, err
}

// Untracked returns the files that Git neither tracks nor ignores, in no order. Do not change the result.
func (r *Repository) Untracked(ctx context.Context) ([]string, error) {
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	return l.untracked, nil
}

// Changed returns the files that are not as they were in a commit: changed, added or removed since, by commits or not. Of a file
// that was moved, both names are among them.
func (r *Repository) Changed(ctx context.Context, from string) ([]string, error) {
	if !r.Git {
		return nil, fmt.Errorf("cannot compare with %q: this is not a Git repository", from)
	}
	r.mu.Lock()
	known, ok := r.changes[from]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	commit, err := r.resolve(ctx, from)
	if err != nil {
		return nil, err
	}
	names, err := r.diff(ctx, commit)
	if err != nil {
		return nil, fmt.Errorf("comparing with %s: %w", from, err)
	}
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	names = append(names, l.untracked...)
	slices.Sort(names)
	names = slices.Compact(names)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes[from] = names
	return names, nil
}

// diff lists the tracked files that are not as in a commit, or as in the index where there is none. Of submodules only their commit counts: a git
// in them would run what their configuration names.
func (r *Repository) diff(ctx context.Context, commit string) ([]string, error) {
	config, err := r.git(ctx, "config", "--list", "--name-only", "-z")
	if err != nil {
		return nil, err
	}
	args := []string{"diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--ignore-submodules=dirty"}
	if commit != "" {
		args = append(args, commit)
	}
	out, err := r.gitWith(ctx, gitquery.WithoutFilters(strings.Split(config, "\x00")), append(args, "--")...)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(out, "\x00") {
		if name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// ReadFile reads a file of at most limit bytes. One of the work tree is a regular file to which no link leads from outside of it.
func (r *Repository) ReadFile(path string, limit int64) ([]byte, error) {
	return projectfile.ReadPath(r.Root, path, limit)
}
