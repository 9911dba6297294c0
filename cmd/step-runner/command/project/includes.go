package project

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source/credentials"
	"github.com/rungci/rung/steps/source/git"
)

// includes makes what gives a definition the files that it includes.
func (o *Flags) includes(p *command.Program) func(*repository.Repository) (gitlab.Loader, error) {
	return func(r *repository.Repository) (gitlab.Loader, error) {
		projects, err := projectFolders(o.projects)
		if err != nil {
			return nil, err
		}
		l := &includeLoader{}
		l.open = sync.OnceValues(func() (*include.Loader, error) { return o.openIncludes(p, r, projects) })
		return l, nil
	}
}

// projectFolders reads --project: PATH=DIR.
func projectFolders(given []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range given {
		name, dir, ok := strings.Cut(pair, "=")
		if !ok || name == "" || dir == "" {
			return nil, exit.Usage("--project: %q is not PROJECT=DIR", pair)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, exit.Coded(exit.System, "--project: %v", err)
		}
		out[strings.Trim(name, "/")] = dir
	}
	return out, nil
}

// openIncludes makes the loader, with the user's sources, cache and credentials.
func (o *Flags) openIncludes(p *command.Program, r *repository.Repository, projects map[string]string) (*include.Loader, error) {
	rules, err := o.From.Rules(p, r.Root)
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // without one there are no credentials in it
	found := &credentials.Finder{Env: p.Env, Home: home}
	kept, err := o.From.OpenCache(p, "")
	if err != nil {
		return nil, err
	}
	return include.New(include.Options{
		Repository: r, Cache: kept, Git: &git.Fetcher{Cache: kept, Credentials: found}, Credentials: found, Rules: rules, Projects: projects,
		LockFile: filepath.Join(r.Root, store.Folder, include.LockName), Offline: o.From.Offline, Refresh: o.From.Refresh, Env: p.Env,
	})
}

// includeLoader makes the loader when something is included that is not the project's own, and records what that was.
type includeLoader struct {
	open func() (*include.Loader, error)
}

// Load implements config.Loader.
func (l *includeLoader) Load(ctx context.Context, place config.Place) (config.File, error) {
	loader, err := l.open()
	if err != nil {
		return config.File{}, err
	}
	file, err := loader.Load(ctx, place)
	if err == nil {
		err = loader.Save()
	}
	return file, err
}

// Glob implements config.Loader.
func (l *includeLoader) Glob(ctx context.Context, pattern config.Place) ([]string, error) {
	loader, err := l.open()
	if err != nil {
		return nil, err
	}
	return loader.Glob(ctx, pattern)
}

// ProjectFiles implements local.Loader.
func (l *includeLoader) ProjectFiles(ctx context.Context, project, ref string) ([]string, error) {
	loader, err := l.open()
	if err != nil {
		return nil, err
	}
	return loader.ProjectFiles(ctx, project, ref)
}
