//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/git"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// sourceFigures are about components from a Git server.
var sourceFigures = []figure{
	{name: "cached git component, resolved and verified", unit: "ms", target: 3, measure: cachedComponent},
	{name: "50 references to one repository, clones", unit: "  ", target: 1, measure: clones},
}

// gitSteps is a Git server with a repository of steps, and the folder of a cache.
type gitSteps struct {
	*sourcetest.GitHTTP
	cache string
	ref   *plan.Reference
}

// serveSteps starts a server whose repository has n steps of 3 files each.
func (w *world) serveSteps(n int) (*gitSteps, error) {
	dir, err := os.MkdirTemp(w.dir, "git-")
	if err != nil {
		return nil, err
	}
	repo, err := sourcetest.NewGitRepo(filepath.Join(dir, "repos", "steps.git"))
	if err != nil {
		return nil, err
	}
	files := map[string]sourcetest.GitFile{}
	for i := range n {
		folder := fmt.Sprintf("steps/s%d/", i)
		files[folder+"step.yml"] = sourcetest.GitFile{Content: "spec: {}\n---\nexec: {command: [\"${{ step_dir }}/run\"]}\n"}
		files[folder+"run"] = sourcetest.GitFile{Mode: "100755", Content: "#!/bin/sh\necho hello\n"}
		files[folder+"data.txt"] = sourcetest.GitFile{Content: fmt.Sprintf("%0*d", 4096, i)}
	}
	if _, err := repo.Push("main", "steps", files); err != nil {
		return nil, err
	}
	server, err := sourcetest.StartGitHTTP(sourcetest.GitOptions{Repos: filepath.Join(dir, "repos")})
	if err != nil {
		return nil, err
	}
	g := &gitSteps{GitHTTP: server, cache: filepath.Join(dir, "cache")}
	g.ref, err = g.reference(0)
	return g, err
}

func (g *gitSteps) reference(i int) (*plan.Reference, error) {
	return gitlabsteps.ParseStaticReference(fmt.Sprintf("%s/steps.git/-/s%d@main", g.URL, i), diag.Span{})
}

// run returns the source of one run, whose own folder is new.
func (g *gitSteps) run(w *world) (*source.Resolver, error) {
	folder, err := os.MkdirTemp(w.dir, "run-")
	if err != nil {
		return nil, err
	}
	kept := cache.New(g.cache)
	return &source.Resolver{
		Local:    &source.Local{Parse: gitlabsteps.ParseFile},
		Cache:    kept,
		Fetchers: map[plan.RefKind]source.Fetcher{plan.RefGit: &git.Fetcher{Cache: kept}},
		Rules:    withClient{g.Client},
		Folder:   folder,
		WorkDir:  folder,
	}, nil
}

// withClient lets every location use one HTTP client.
type withClient struct{ client *http.Client }

func (c withClient) Apply(at *source.Location) (source.Trust, error) {
	at.Access.HTTP = c.client
	return source.Trust{}, nil
}

// cachedComponent returns the milliseconds that a run takes to get at a component that is in the cache. Every file of its package
// is verified and laid out for the run. The server is down.
func cachedComponent(w *world) (float64, string, error) {
	const steps = 5
	g, err := w.serveSteps(steps)
	if err != nil {
		return 0, "", err
	}
	load := func() (time.Duration, error) {
		r, err := g.run(w)
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(r.Folder)
		start := time.Now()
		_, err = r.Load(context.Background(), g.ref, r.WorkDir)
		return time.Since(start), err
	}
	first, err := load()
	if err != nil {
		return 0, "", err
	}
	g.Close()
	var times []time.Duration
	for range 10 * w.rounds {
		took, err := load()
		if err != nil {
			return 0, "", err
		}
		times = append(times, took)
	}
	return median(times).Seconds() * 1e3, fmt.Sprintf("a package of %d files, without network; fetched from this machine in %s", 3*steps, ms(first)), nil
}

// clones returns how often a repository is fetched for 50 references to it that come at once.
func clones(w *world) (float64, string, error) {
	g, err := w.serveSteps(50)
	if err != nil {
		return 0, "", err
	}
	defer g.Close()
	r, err := g.run(w)
	if err != nil {
		return 0, "", err
	}
	var all sync.WaitGroup
	errs := make(chan error, 50)
	for i := range 50 {
		all.Go(func() {
			ref, err := g.reference(i)
			if err == nil {
				_, err = r.Load(context.Background(), ref, r.WorkDir)
			}
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, "", err
		}
	}
	fetched := 0
	requests := g.Requests()
	for _, request := range requests {
		if request.Method == http.MethodPost {
			fetched++
		}
	}
	return float64(fetched), fmt.Sprintf("50 at once, %d requests in all", len(requests)), nil
}
