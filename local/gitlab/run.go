package gitlab

import (
	"context"
	"slices"
	"sync"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// RunOptions say how jobs are run.
type RunOptions struct {
	local.Options
	// Jobs are those to run, as Project.Select gives them.
	Jobs []*pipeline.Job
	// Named are the names of jobs that were asked for: a manual one among them runs.
	Named []string
	// Manual are the names of further manual jobs that run.
	Manual []string
	// WaitDelayed waits for delayed jobs, which otherwise start at once.
	WaitDelayed bool
	// InPlace runs jobs in the work tree itself.
	InPlace bool
	// Secrets are values of `secrets:`, by name.
	Secrets map[string]string
}

// runner is a pipeline, or a part of it, that is being run.
type runner struct {
	*local.Runner
	project *Project
	o       *RunOptions
	issuer  *issuer
	parent  *runner

	mu       sync.Mutex
	manifest map[*pipeline.Job]*store.Manifest // what jobs of this run left; nil for those that left nothing
}

// runner makes what runs jobs of the project.
func (p *Project) runner(o *RunOptions, r *local.Runner) *runner {
	return &runner{
		Runner: r, project: p, o: o, issuer: &issuer{publish: p.Store.WriteKeys},
		manifest: map[*pipeline.Job]*store.Manifest{},
	}
}

// Run runs jobs and returns how each ended, in their order. Cancelling ctx stops them gracefully.
func (p *Project) Run(ctx context.Context, o RunOptions) []local.Result {
	r := p.runner(&o, local.NewRunner(o.Options))
	if on := p.Definition.Workflow.OnNewCommit; on != "" && o.Verbose {
		o.Observer.Say("", "workflow: auto_cancel: on_new_commit: "+on+" concerns newer pipelines; a local run has none")
	}
	return r.schedule().all(ctx, r.Concurrency, r.Observer.Finished)
}

// schedule says when the runner's jobs run.
func (r *runner) schedule() *schedule {
	return &schedule{jobs: r.o.Jobs, prefix: r.Prefix, unit: r.unit, manual: r.startsByHand, stopOnFailure: r.project.StopsOnFailure()}
}

// startsByHand reports whether a manual job was asked for.
func (r *runner) startsByHand(j *pipeline.Job) bool {
	for _, names := range [][]string{r.o.Named, r.o.Manual} {
		for _, name := range names {
			if name == j.Name || name == j.Group || name == "*" {
				return true
			}
		}
	}
	return false
}

// isNamed reports whether a job was asked for by its name.
func (r *runner) isNamed(j *pipeline.Job) bool {
	return slices.Contains(r.o.Named, j.Name) || slices.Contains(r.o.Named, j.Group)
}

// StopsOnFailure reports whether the workflow cancels everything when a job fails.
func (p *Project) StopsOnFailure() bool {
	w := p.Definition.Workflow
	onFailure := w.OnJobFailure
	if i := p.Pipeline.Verdict.Rule; i != when.NoRule && i >= 0 && i < len(w.Rules) && w.Rules[i].OnJobFailure != "" {
		onFailure = w.Rules[i].OnJobFailure
	}
	return onFailure == "all"
}
