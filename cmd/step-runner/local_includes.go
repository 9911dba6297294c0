package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/credentials"
	"github.com/rungci/rung/steps/source/git"
)

// includes makes what gives a definition the files that it includes.
func (a *app) includes(o *eventFlags) func(*repository.Repository) (gitlab.Loader, error) {
	return func(r *repository.Repository) (gitlab.Loader, error) {
		projects, err := projectFolders(o.projects)
		if err != nil {
			return nil, err
		}
		l := &includeLoader{}
		l.open = sync.OnceValues(func() (*include.Loader, error) { return a.openIncludes(o, r, projects) })
		return l, nil
	}
}

// projectFolders reads --project: PATH=DIR.
func projectFolders(given []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range given {
		name, dir, ok := strings.Cut(pair, "=")
		if !ok || name == "" || dir == "" {
			return nil, usage("--project: %q is not PROJECT=DIR", pair)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, coded(exitSystem, "--project: %v", err)
		}
		out[strings.Trim(name, "/")] = dir
	}
	return out, nil
}

// openIncludes makes the loader, with the user's sources, cache and credentials.
func (a *app) openIncludes(o *eventFlags, r *repository.Repository, projects map[string]string) (*include.Loader, error) {
	rules, err := a.rules(&o.from, r.Root)
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // without one there are no credentials in it
	found := &credentials.Finder{Env: a.env, Home: home}
	kept := cache.New(a.cacheDir(&o.from, ""))
	return include.New(include.Options{
		Repository: r, Cache: kept, Git: &git.Fetcher{Cache: kept, Credentials: found}, Credentials: found, Rules: rules, Projects: projects,
		LockFile: filepath.Join(r.Root, store.Folder, include.LockName), Offline: o.from.offline, Refresh: o.from.refresh, Env: a.env,
	})
}

// includeLoader makes the loader when something is included that is not the project's own, and writes down what that was.
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
