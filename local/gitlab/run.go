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
	slots   chan int
	issuer  *issuer
	parent  *runner
	ctx     context.Context // of the whole run: child pipelines that nobody waits for outlive the schedule

	mu       sync.Mutex
	manifest map[*pipeline.Job]*store.Manifest // what jobs of this run left; nil for those that left nothing
	beside   map[string][]local.Result         // child pipelines that nobody waited for, by their jobs
	children sync.WaitGroup                    // of those
}

// runner makes what runs jobs of the project.
func (p *Project) runner(o *RunOptions, r *local.Runner) *runner {
	return &runner{
		Runner: r, project: p, o: o, issuer: &issuer{publish: p.Store.WriteKeys},
		manifest: map[*pipeline.Job]*store.Manifest{}, beside: map[string][]local.Result{},
	}
}

// Run runs jobs and returns how each ended, in their order. Cancelling ctx stops them gracefully.
func (p *Project) Run(ctx context.Context, o RunOptions) []local.Result {
	r := p.runner(&o, local.NewRunner(o.Options))
	r.slots = make(chan int, r.Concurrency)
	for i := range r.Concurrency {
		r.slots <- i
	}
	if on := p.Definition.Workflow.OnNewCommit; on != "" && o.Verbose {
		o.Observer.Say("", "workflow: auto_cancel: on_new_commit: "+on+" is about a newer pipeline, and there is none on one machine")
	}
	return r.all(ctx)
}

// all runs the runner's jobs.
func (r *runner) all(ctx context.Context) []local.Result {
	r.ctx = ctx
	s := &schedule{
		jobs: r.o.Jobs, prefix: r.Prefix, run: r.job, report: r.Observer.Finished, manual: r.startsByHand,
		stopOnFailure: r.project.stopsOnFailure(),
	}
	results := s.all(ctx)
	r.children.Wait()
	for i := range results {
		if children := r.beside[results[i].Name]; children != nil {
			results[i].Children = children
		}
	}
	return results
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

// stopsOnFailure reports whether the workflow cancels everything when a job fails.
func (p *Project) stopsOnFailure() bool {
	w := p.Definition.Workflow
	onFailure := w.OnJobFailure
	if i := p.Pipeline.Verdict.Rule; i != when.NoRule && i >= 0 && i < len(w.Rules) && w.Rules[i].OnJobFailure != "" {
		onFailure = w.Rules[i].OnJobFailure
	}
	return onFailure == "all"
}
