package gitlab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service/client"
)

// The references of built-in steps whose results count here.
const (
	uploadRef   = "builtin://artifacts/upload"
	coverageRef = "builtin://coverage"
	restoreRef  = "builtin://cache/restore"
	saveRef     = "builtin://cache/save"
)

// deliver brings what the job needs to its environment: files of variables, and where the environment has files of its own, the project,
// archives and caches.
func (a *attempt) deliver(ctx context.Context, job *compile.Job, component *plan.Component) error {
	files, err := compile.Files(job)
	if err != nil {
		return err
	}
	if err := a.writeFiles(ctx, files); err != nil {
		return fmt.Errorf("writing the files of variables: %w", err)
	}
	layout := a.env.Layout()
	if layout.Shared {
		return nil
	}
	if a.wantsTree(job) {
		strategy, _ := job.Variables.Lookup("GIT_SUBMODULE_STRATEGY")
		submodules := strategy == "normal" || strategy == "recursive"
		if err := session.SendTree(ctx, a.env, layout.Project, a.runner.project.Repository.Root, "", submodules); err != nil {
			return fmt.Errorf("sending the project's files: %w", err)
		}
		a.brought = append(a.brought, event.File{To: layout.Project, From: a.runner.project.Repository.Root, Tree: true})
	}
	var parcels []session.Parcel
	for _, d := range job.Dependencies {
		if from := a.archives[d.File]; from != "" {
			parcels = append(parcels, session.Parcel{From: from, To: path.Join("incoming", path.Base(d.File))})
		}
	}
	folder, err := a.runner.project.Store.Cache()
	if err != nil {
		return err
	}
	for _, key := range cacheKeys(component) {
		parcels = append(parcels, session.Parcel{From: filepath.Join(folder, filepath.FromSlash(key)), To: path.Join("cache", key)})
	}
	for _, p := range parcels {
		a.brought = append(a.brought, event.File{To: session.Target(layout, p), From: p.From})
	}
	return session.Send(ctx, a.env, parcels)
}

// wantsTree reports whether the job works on the project's files.
func (a *attempt) wantsTree(job *compile.Job) bool {
	switch strategy, _ := job.Variables.Lookup("GIT_STRATEGY"); strategy {
	case "none", "empty":
		return false
	}
	return true
}

// cacheKeys are the keys of the caches that steps restore, each once.
func cacheKeys(c *plan.Component) []string {
	var keys []string
	add := func(text string) {
		if clean, err := cachekey.Sanitize(text); err == nil && clean != "" && !slices.Contains(keys, clean) {
			keys = append(keys, clean)
		}
	}
	for _, s := range c.Definition.Steps {
		if s.Ref == nil || s.Ref.Text != restoreRef && s.Ref.Text != saveRef {
			continue
		}
		add(s.Inputs["key"].Value.Str())
		for _, v := range s.Inputs["fallback_keys"].Value.Items() {
			add(v.Str())
		}
	}
	return keys
}

// writeFiles writes the files of variables beside the project, for the job's user only.
func (a *attempt) writeFiles(ctx context.Context, files map[string]variable.Variable) error {
	shared := a.env.Layout().Shared
	for _, name := range slices.Sorted(maps.Keys(files)) {
		v, err := files[name], error(nil)
		a.brought = append(a.brought, event.File{To: filepath.ToSlash(name), Text: v.Value, Name: v.Name})
		if shared {
			err = os.WriteFile(name, []byte(v.Value), 0o600)
		} else {
			err = session.SendText(ctx, a.env, filepath.ToSlash(name), v.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// requestVariables are what ${{ vars.NAME }} reads, and what must not be shown. The others stand in the steps.
func requestVariables(job *compile.Job) ([]client.Variable, error) {
	wanted := compile.Masked
	if len(job.Steps) > 0 {
		wanted = compile.Variables // native steps may ask for any
	}
	all, err := wanted(job)
	if err != nil {
		return nil, err
	}
	files, err := compile.Files(job)
	if err != nil {
		return nil, err
	}
	out := make([]client.Variable, 0, len(all))
	for _, v := range all {
		out = append(out, client.Variable{Name: v.Name, Value: v.Value, Masked: v.Masked})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if v := files[name]; v.Masked && v.Value != "" {
			out = append(out, client.Variable{Name: "RUNG_CONTENT_OF_" + v.Name, Value: v.Value, Masked: true})
		}
	}
	return out, nil
}

// collect takes over what the job left: artifacts, and what it says of itself. Where the environment has files of its own they are
// brought here, also after a failure.
func (a *attempt) collect(ctx context.Context, w *watch, out *outcome) error {
	for _, g := range w.given {
		if g.ref == coverageRef {
			if text := g.outputs["coverage"].Str(); text != "" {
				out.notes = append(out.notes, "coverage "+text+"%")
			}
		}
	}
	out.left = a.manifest(w)
	if a.env.Layout().Shared {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := a.bringBack(ctx, w, out); err != nil {
		out.left = nil
		return session.Problem(event.ErrorSystem, "", "what the job left cannot be fetched: %v", err)
	}
	return nil
}

func (a *attempt) bringBack(ctx context.Context, w *watch, out *outcome) error {
	s := a.runner.project.Store
	if len(out.left.Reports) > 0 || out.left.Archive != "" {
		to, err := s.Artifacts(a.job.Name, a.runner.id)
		if err == nil {
			err = session.Fetch(ctx, a.env, a.places.artifacts, to)
		}
		if err != nil {
			return err
		}
	}
	if a.job.Keywords.Release != nil {
		to, err := s.Releases()
		if err == nil {
			err = session.Fetch(ctx, a.env, a.places.releases, to)
		}
		if err != nil {
			return err
		}
	}
	if a.job.Keywords.Pages != nil {
		to, err := s.Pages()
		if err == nil {
			err = session.Fetch(ctx, a.env, a.places.pages, to)
		}
		if err != nil {
			return err
		}
	}
	to, err := s.Cache()
	if err != nil {
		return err
	}
	for _, g := range w.given {
		if g.ref != saveRef || !g.outputs["saved"].Bool() {
			continue
		}
		key, err := cachekey.Sanitize(g.inputs["key"].Str())
		if err != nil || key == "" {
			continue
		}
		folder := filepath.Join(to, filepath.FromSlash(key))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := session.Fetch(ctx, a.env, path.Join(a.places.cache, key), folder); err != nil {
			return err
		}
	}
	return nil
}
