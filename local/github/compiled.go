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
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
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
	return filepath.Join(r.project.Store.Root(), "artifacts", store.Slug(r.project.File), r.id)
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
		o.WorkTree, o.ExcludesFile = a.project.Repository.Root, a.project.Repository.Excludes
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

// deliver brings what the job needs to an environment that has files of its own.
func (a *attempt) deliver(ctx context.Context, compiled *definition.Compiled) error {
	layout := a.env.Layout()
	if layout.Shared {
		return nil
	}
	if compiled.Checkout {
		root, to := a.project.Repository.Root, session.Target(layout, session.Parcel{To: treeFolder})
		if err := session.SendTree(ctx, a.env, to, root, "", true); err != nil {
			return fmt.Errorf("sending the project's files: %w", err)
		}
		a.brought = append(a.brought, event.File{To: to, From: root, Tree: true})
	}
	if !hasActions(compiled.Plan.Definition.Steps) {
		return nil
	}
	parcels := []session.Parcel{{From: a.artifacts(), To: artifactsFolder}, {From: a.cache(), To: cacheFolder}}
	for _, p := range parcels {
		a.brought = append(a.brought, event.File{To: session.Target(layout, p), From: p.From})
	}
	return session.Send(ctx, a.env, parcels)
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

// bringBack fetches what actions have left in an environment that has files of its own.
func (a *attempt) bringBack(ctx context.Context, compiled *definition.Compiled) error {
	layout := a.env.Layout()
	if layout.Shared || !hasActions(compiled.Plan.Definition.Steps) {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	for folder, to := range map[string]string{artifactsFolder: a.artifacts(), cacheFolder: a.cache()} {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := session.Fetch(ctx, a.env, session.Target(layout, session.Parcel{To: folder}), to); err != nil {
			return session.Problem(event.ErrorSystem, "", "what the job left cannot be fetched: %v", err)
		}
	}
	return nil
}

// keep makes the artifacts of the run those that count, and removes those of earlier ones.
func (r *runner) keep(results []Result) {
	entries, err := os.ReadDir(r.artifacts())
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		_ = os.Remove(r.artifacts())
		return
	}
	status := Success
	for _, result := range results {
		if result.Status == Failed || result.Status == Cancelled && status == Success {
			status = result.Status
		}
	}
	if err == nil {
		err = r.project.Store.Keep(&store.Manifest{
			Job: r.project.File, Run: r.id, Ref: r.project.github["ref"].Text(), SHA: r.project.Repository.SHA(), Status: string(status), Finished: time.Now().UTC(),
		})
	}
	if err != nil {
		r.o.Observer.Warn("", fmt.Sprintf("the artifacts are not kept: %v", err), "")
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
