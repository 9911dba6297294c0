package gitlab

import (
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/catalog/artifacts"
	"github.com/rungci/rung/steps/catalog/pages"
	"github.com/rungci/rung/steps/catalog/release"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// coverageRef refers to the built-in step that finds the coverage.
const coverageRef = "builtin://coverage"

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
	if wantsTree(job.Variables) {
		strategy, _ := job.Variables.Lookup("GIT_SUBMODULE_STRATEGY")
		steps.Tree = &local.Tree{
			From: a.runner.project.Repository.Root, To: a.project, Submodules: strategy == "normal" || strategy == "recursive",
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
	for _, key := range sentCaches(compiled.Results) {
		for _, name := range cacheFiles { // and nothing of other keys, which may be below
			steps.Parcels = append(steps.Parcels, session.Parcel{From: filepath.Join(folder, filepath.FromSlash(key), name), To: path.Join("cache", key, name)})
		}
	}
	return nil
}

// wantsTree reports whether a job with these variables works on the project's files.
func wantsTree(vars *variable.Collection) bool {
	switch strategy, _ := vars.Lookup("GIT_STRATEGY"); strategy {
	case "none", "empty":
		return false
	}
	return true
}

// cacheFiles are the files of a cache: its archive, and the mark that says what is in it.
var cacheFiles = []string{"cache.zip", "cache.mark"}

// maxMark bounds the mark of a cache, in bytes.
const maxMark = 4 << 10

// sentCaches are the keys of the caches that a job looks for or saves, each once. A cache that is saved is sent, too: one that has not
// changed is not saved again.
func sentCaches(r compile.Results) []string {
	keys := slices.Clone(r.Restored)
	for _, saved := range r.Saved {
		if !slices.Contains(keys, saved.Key) {
			keys = append(keys, saved.Key)
		}
	}
	return keys
}

// coverageOf is the note about the coverage that steps found: a number, whatever else an environment reports.
func coverageOf(o *session.Outcome) (all []string) {
	for _, p := range o.Produced {
		text := p.Outputs["coverage"].Str()
		if _, err := strconv.ParseFloat(text, 64); p.Ref == coverageRef && err == nil {
			all = append(all, "coverage "+text+"%")
		}
	}
	return all
}

// Staging implements local.Work.
func (a *attempt) Staging() (string, error) { return a.runner.project.Store.Staging() }

// Fetch implements local.Work: what the job may leave for the store. What it is, and where it goes, was compiled here; that a step
// succeeded is all that is taken from what the environment reports.
func (a *attempt) Fetch(o *session.Outcome) (all []local.Arrival) {
	s, r := a.runner.project.Store, a.results
	file := func(from string, folder func() (string, error)) {
		all = append(all, local.Arrival{From: from, Take: func(_ context.Context, came string) error {
			dir, err := folder()
			if err == nil {
				_, err = s.Take(came, filepath.Join(dir, path.Base(from)))
			}
			return err
		}})
	}
	own := func() (string, error) { return s.Artifacts(a.job.Name, a.ID) }
	for _, u := range r.Uploads {
		if o.Of(u.Step) == nil {
			continue
		}
		file(path.Join(a.places.artifacts, artifacts.FileName(u.Name, u.Type, u.Format)), own)
		if u.Metadata {
			file(path.Join(a.places.artifacts, artifacts.MetadataName(u.Name)), own)
		}
	}
	if r.Release != nil && o.Of(r.Release.Step) != nil {
		file(path.Join(a.places.releases, release.FileName(r.Release.Tag)), s.Releases)
	}
	if r.Pages != nil && o.Of(r.Pages.Step) != nil {
		all = append(all, local.Arrival{From: a.places.pages, Take: func(ctx context.Context, came string) error {
			to, err := s.Pages()
			if err != nil {
				return err
			}
			return pages.Take(ctx, came, to, r.Pages.PathPrefix)
		}})
	}
	for _, saved := range r.Saved {
		if step := o.Of(saved.Step); step != nil && step.Outputs["saved"].Bool() {
			all = append(all, a.cacheArrivals(saved.Key)...)
		}
	}
	return all
}

// cacheArrivals are the files of a cache of a key that was compiled.
func (a *attempt) cacheArrivals(key string) (all []local.Arrival) {
	s := a.runner.project.Store
	for _, name := range cacheFiles {
		all = append(all, local.Arrival{From: path.Join(a.places.cache, key, name), Take: func(_ context.Context, came string) error {
			if info, err := os.Lstat(came); err == nil && name != cacheFiles[0] && info.Size() > maxMark {
				return nil // not a mark
			}
			folder, err := s.Cache()
			if err == nil {
				_, err = s.Take(came, filepath.Join(folder, filepath.FromSlash(key), name))
			}
			return err
		}})
	}
	return all
}
