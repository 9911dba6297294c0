package include

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// local reads a file of the project that the pipeline runs for, from the work tree.
func (l *Loader) local(name string) (config.File, error) {
	data, err := readBelow(l.o.Repository.Root, name)
	return config.File{Data: data, Place: config.Place{Kind: config.Local, Path: name}}, err
}

// readBelow reads a file below a folder. No link leads out of the folder, and Git's own files are none of the project's.
func readBelow(dir, name string) ([]byte, error) {
	if glob.InGit(name) {
		return nil, fmt.Errorf("%s belongs to Git and is not a project file", name)
	}
	return projectfile.Read(dir, name, config.MaxFileSize)
}

// folder lists a folder that stands for a project.
func (l *Loader) folder(ctx context.Context, project, dir string) (*files, error) {
	if f := l.folders[dir]; f != nil {
		return f, nil
	}
	r, err := repository.Open(ctx, dir, l.o.Env)
	if err != nil {
		return nil, fmt.Errorf("the folder that replaces %s: %w", project, err)
	}
	l.note(fmt.Sprintf("%s is taken from %s, regardless of its ref", project, dir))
	names, err := r.Files(ctx)
	if err != nil {
		return nil, err
	}
	f := &files{dir: dir, names: below(r.Root, dir, names), read: func(name string) ([]byte, error) { return readBelow(dir, name) }}
	if r.Commit != nil {
		f.sha = r.SHA()
	}
	l.folders[dir] = f
	return f, nil
}

// below keeps the names that are in a folder of a repository, as seen from there.
func below(root, dir string, names []string) []string {
	for _, at := range []*string{&root, &dir} {
		if real, err := filepath.EvalSymlinks(*at); err == nil {
			*at = real
		}
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return names
	}
	prefix := filepath.ToSlash(rel) + "/"
	var inside []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			inside = append(inside, rest)
		}
	}
	slices.Sort(inside)
	return inside
}
