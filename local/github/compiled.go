package github

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/toolkit/github/service/artifact"
	"github.com/rungci/rung/steps/toolkit/github/service/cache"
)

// Folders of the store, below that of an environment that has files of its own.
const (
	artifactsFolder = "artifacts"
	cacheFolder     = "cache"
	treeFolder      = "tree"
)

// actionsCache is the part of the store's caches that actions use.
const actionsCache = "actions"

// artifacts is the folder for the artifacts of the run, which all its jobs share. It is made when there is one.
func (r *runner) artifacts() string {
	return filepath.Join(r.project.Store.Root(), "artifacts", store.Slug(r.project.File), r.ID)
}

func (r *runner) cache() string {
	return filepath.Join(r.project.Store.Root(), "cache", actionsCache)
}

// requests is the file in which what the leg would have changed on GitHub is written down, beside its trace.
func (a *attempt) requests() string {
	return filepath.Join(a.project.Store.Root(), "traces", store.Slug(a.leg.name)+".requests.json")
}

// compile makes the steps of the leg for an environment.
func (a *attempt) compile(layout executor.Layout) (*definition.Compiled, error) {
	in := func(folder string) string { return session.Target(layout, session.Parcel{To: folder}) }
	rung := map[string]string{"artifacts": in(artifactsFolder), "cache": in(cacheFolder)}
	o := definition.CompileOptions{Rung: rung, WorkTree: in(treeFolder), Delivered: !layout.Shared, Source: a.leg.node.scope.source, Most: a.leg.node.scope.most, Pin: a.pin}
	if layout.Shared {
		rung["artifacts"], rung["cache"], rung["record"] = a.artifacts(), a.cache(), a.requests()
		var err error
		if a.excludes, o.ExcludesFile, err = local.Excludes(layout, a.project.Repository.Excludes); err != nil {
			return nil, err
		}
		o.WorkTree = a.project.Repository.Root
		if tools := a.project.variable("RUNNER_TOOL_CACHE"); tools != "" {
			rung["tool_cache"] = tools // of a machine that runs such jobs already
		}
	}
	o.Root = o.WorkTree
	if a.o.RealCheckout {
		o.WorkTree, o.ExcludesFile = "", ""
	}
	return definition.Compile(a.leg.node.job, a.leg.Leg, a.contexts, o)
}

// deliver adds what the job needs in an environment that has files of its own.
func (a *attempt) deliver(steps *local.Steps) {
	if a.layout.Shared {
		return
	}
	if a.compiled.Checkout {
		steps.Tree = &local.Tree{
			From: a.project.Repository.Root, To: session.Target(a.layout, session.Parcel{To: treeFolder}), Submodules: true,
		}
	}
	if hasActions(a.compiled.Plan.Definition.Steps) {
		steps.Parcels = []session.Parcel{{From: a.artifacts(), To: artifactsFolder}, {From: a.cache(), To: cacheFolder}}
	}
}

// hasActions reports whether any step is an action, which alone uses artifacts and caches.
func hasActions(steps []plan.Step) bool {
	for _, s := range steps {
		if s.Ref != nil && s.Ref.Kind != plan.RefBuiltin || hasActions(s.Parallel) || s.Inline != nil && hasActions(s.Inline.Definition.Steps) {
			return true
		}
	}
	return false
}

// Staging implements local.Work.
func (a *attempt) Staging() (string, error) { return a.project.Store.Staging() }

// Fetch implements local.Work: what actions have left. The job can write to these folders, so only what is new in them is taken over.
func (a *attempt) Fetch(*session.Outcome) []local.Arrival {
	if !hasActions(a.compiled.Plan.Definition.Steps) {
		return nil
	}
	in := func(folder string) string { return session.Target(a.layout, session.Parcel{To: folder}) }
	return []local.Arrival{{From: in(artifactsFolder), Take: a.takeArtifacts}, {From: in(cacheFolder), Take: a.takeCaches}}
}

func (a *attempt) takeArtifacts(_ context.Context, came string) error {
	a.taking.Lock()
	defer a.taking.Unlock()
	changed, err := artifact.Folder{Dir: a.artifacts()}.Take(artifact.Folder{Dir: came}, a.leg.node.job.ID)
	for _, name := range changed {
		a.Observer.Warn(a.leg.name, fmt.Sprintf("the artifact %s is not replaced: another job of the run has left it", name), "give the artifact another name")
	}
	return err
}

func (a *attempt) takeCaches(_ context.Context, came string) error {
	a.taking.Lock()
	defer a.taking.Unlock()
	return cache.Folder{Dir: a.cache()}.Take(cache.Folder{Dir: came})
}

// keep makes the artifacts of the run those that count, and removes those of earlier ones.
func (r *runner) keep(results []local.Result) {
	entries, err := os.ReadDir(r.artifacts())
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		_ = os.Remove(r.artifacts())
		return
	}
	status := local.Success
	for _, result := range local.Flatten(results) {
		if result.Status == local.Failed || result.Status == local.Cancelled && status == local.Success {
			status = result.Status
		}
	}
	if err == nil {
		err = r.project.Store.Keep(&store.Manifest{
			Job: r.project.File, Run: r.ID, Ref: r.project.github["ref"].Text(), SHA: r.project.Repository.SHA(), Status: string(status), Finished: time.Now().UTC(),
		})
	}
	if err != nil {
		r.Observer.Warn("", fmt.Sprintf("cannot keep the artifacts: %v", err), "")
	}
}

// variable is a variable of this program's environment.
func (p *Project) variable(name string) string {
	text := ""
	for _, pair := range p.options.Env {
		if of, is, _ := strings.Cut(pair, "="); of == name {
			text = is
		}
	}
	return text
}
