package gitlab

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// compiled makes steps of the job for its environment.
func (a *attempt) compiled(ctx context.Context) (*Compiled, error) {
	p, layout := a.runner.project, a.layout
	source := compile.Source{Ref: p.Facts.Pipeline.Ref}
	switch {
	case a.o.InPlace, !layout.Shared:
		source.None = true
	default:
		source.WorkTree, source.Excludes = p.Repository.Root, p.Repository.Excludes
		if !a.dry {
			var err error
			if a.excludes, source.Excludes, err = local.Excludes(layout, source.Excludes); err != nil {
				return nil, err
			}
		}
	}
	a.archives = map[string]string{}
	o := compile.Options{
		ArtifactsDir: a.places.artifacts, CacheDir: a.places.cache, PagesDir: a.places.pages, ReleasesDir: a.places.releases,
		Dependency: a.dependency, Source: source, Temp: layout.Temp, CacheKeyFiles: p.Repository.CacheKeys(ctx), Protected: p.Protected(),
		Inputs: p.inputs[a.job.Group],
	}
	job, notes, err := compile.FromPipeline(a.ownNeeds(), a.vars, o)
	if err != nil {
		return nil, err
	}
	if job.Dependencies, err = a.upstream(job.Dependencies); err != nil {
		return nil, err
	}
	job.Timeout, job.Project = a.timeout, a.project
	compiled, err := compile.Compile(job)
	if err != nil {
		return nil, a.uncompiled(err)
	}
	for _, note := range slices.Concat(notes, compiled.Notes) {
		a.note(note)
	}
	return &Compiled{Compiled: compiled, Job: job}, nil
}

// note tells of something that a job says and that is done in another way, once for all attempts.
func (a *attempt) note(text string) {
	a.SayOnce(a.job.Name, text)
}

// dependency is the archive of a job, as the environment sees it.
func (a *attempt) dependency(from *pipeline.Job) (string, bool) {
	if a.dry && slices.Contains(a.o.Jobs, from) && from.Keywords.Artifacts != nil && len(from.Keywords.Artifacts.Paths) > 0 {
		return filepath.Join(a.runner.project.Store.Root(), "artifacts", store.Slug(from.Name), a.ID, "artifacts.zip"), true // to be
	}
	return a.incoming(from.Name, a.consumer(a.job).leftBy(from))
}

func (a *attempt) incoming(name string, m *store.Manifest) (string, bool) {
	file := m.ArchivePath()
	if file == "" || a.layout.Shared {
		return file, file != ""
	}
	inside := path.Join(a.places.incoming, store.Slug(name)+path.Ext(file))
	a.archives[inside] = file
	return inside, true
}

// openToken returns variables of which those with the job's token are not masked: it is made up and opens nothing, and whoever runs the
// steps again, by a replay or from what compile prints, need not supply it.
func (p *Project) openToken(vars *variable.Collection) *variable.Collection {
	out := variable.New()
	for v := range vars.All() {
		v.Masked = v.Masked && !strings.Contains(v.Value, p.Facts.Token)
		out.Add(v)
	}
	return out
}

// Compiled is a job as steps.
type Compiled struct {
	*compile.Compiled
	Job *compile.Job
}

// Compile makes steps of a job without running it, with folders that are named and not made: project is the one that it would run in.
func (p *Project) Compile(ctx context.Context, j *pipeline.Job, o RunOptions, project string) (*Compiled, error) {
	notes := &local.Notes{}
	o.Observer = notes
	a := p.dry(j, o, project)
	if err := a.enter(); err != nil {
		return nil, fmt.Errorf("the job %s: %w", j.Name, err)
	}
	out, err := a.compiled(ctx)
	if err != nil {
		return nil, fmt.Errorf("the job %s: %w", j.Name, err)
	}
	out.Notes = slices.Compact(notes.Texts)
	return out, nil
}
