package gitlab

import (
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/plan"
)

// The references of built-in steps whose results count here.
const (
	uploadRef   = "builtin://artifacts/upload"
	coverageRef = "builtin://coverage"
	restoreRef  = "builtin://cache/restore"
	saveRef     = "builtin://cache/save"
)

// deliver adds what the job needs in its environment: files of variables, and where the environment has files of its own, the project,
// archives and caches.
func (a *attempt) deliver(compiled *Compiled, steps *local.Steps) error {
	job := compiled.Job
	for _, name := range slices.Sorted(maps.Keys(compiled.Files)) {
		v := compiled.Files[name]
		steps.Texts = append(steps.Texts, event.File{To: filepath.ToSlash(name), Text: v.Value, Name: v.Name})
	}
	if a.layout.Shared {
		return nil
	}
	if wantsTree(job) {
		strategy, _ := job.Variables.Lookup("GIT_SUBMODULE_STRATEGY")
		steps.Tree = &local.Tree{
			From: a.runner.project.Repository.Root, To: a.layout.Project, Submodules: strategy == "normal" || strategy == "recursive",
		}
	}
	for _, d := range job.Dependencies {
		if from := a.archives[d.File]; from != "" {
			steps.Parcels = append(steps.Parcels, session.Parcel{From: from, To: path.Join("incoming", path.Base(d.File))})
		}
	}
	folder, err := a.runner.project.Store.Cache()
	if err != nil {
		return err
	}
	for _, key := range cacheKeys(steps.Plan) {
		steps.Parcels = append(steps.Parcels, session.Parcel{From: filepath.Join(folder, filepath.FromSlash(key)), To: path.Join("cache", key)})
	}
	return nil
}

// wantsTree reports whether the job works on the project's files.
func wantsTree(job *compile.Job) bool {
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

// coverageOf is the note about the coverage that steps found.
func coverageOf(o *local.Outcome) (all []string) {
	for _, p := range o.Produced {
		if text := p.Outputs["coverage"].Str(); p.Ref == coverageRef && text != "" {
			all = append(all, "coverage "+text+"%")
		}
	}
	return all
}

// Fetch implements local.Work: what the job left for the store.
func (a *attempt) Fetch(o *local.Outcome) (all []session.Parcel, err error) {
	s, k := a.runner.project.Store, a.job.Keywords
	add := func(wanted bool, from string, folder func() (string, error)) {
		if !wanted || err != nil {
			return
		}
		var to string
		if to, err = folder(); err == nil {
			all = append(all, session.Parcel{From: from, To: to})
		}
	}
	left := a.manifest(o)
	add(len(left.Reports) > 0 || left.Archive != "", a.places.artifacts, func() (string, error) { return s.Artifacts(a.job.Name, a.ID) })
	add(k.Release != nil, a.places.releases, s.Releases)
	add(k.Pages != nil, a.places.pages, s.Pages)
	for _, p := range o.Produced {
		if p.Ref != saveRef || !p.Outputs["saved"].Bool() {
			continue
		}
		key, wrong := cachekey.Sanitize(p.Inputs["key"].Str())
		add(wrong == nil && key != "", path.Join(a.places.cache, key), func() (string, error) {
			folder, err := s.Cache()
			return filepath.Join(folder, filepath.FromSlash(key)), err
		})
	}
	return all, err
}
