package gitlab

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Isolation says where jobs run.
type Isolation string

// The ways.
const (
	// IsolateAuto runs jobs that name an image or services in containers, where there is an engine, and others on this machine.
	IsolateAuto Isolation = "auto"
	// IsolateNone runs jobs on this machine.
	IsolateNone Isolation = "none"
	// IsolateContainer runs jobs in containers.
	IsolateContainer Isolation = "container"
)

// RunOptions say how jobs are run.
type RunOptions struct {
	// Jobs are those to run, as Project.Select gives them.
	Jobs []*pipeline.Job
	// Named are the names of jobs that were asked for: a manual one among them runs.
	Named []string
	// Manual are the names of further manual jobs that run.
	Manual []string
	// Concurrency is how many jobs run at a time; less than 1 is 1.
	Concurrency int
	// WaitDelayed waits for delayed jobs, which otherwise start at once.
	WaitDelayed bool
	Isolation   Isolation
	// None makes the level without isolation, Container that of containers. Each is called once, when a job needs it. Container may
	// be nil. The levels are the caller's to close.
	None, Container func() (executor.Executor, error)
	// NoServices leaves services out where there is no engine for them.
	NoServices bool
	// InPlace runs jobs in the work tree itself.
	InPlace bool
	// Keep leaves the folders of jobs.
	Keep bool
	// Shell is called with the environment of a job that failed, before it is removed. It may be nil.
	Shell func(context.Context, ShellJob)
	// Secrets are values of `secrets:`, by name.
	Secrets map[string]string
	// Trace returns the file for the trace of a job; "" and nil are the store's.
	Trace func(job string) string
	// Grace is how long processes have to end when they are stopped; 0 is the default.
	Grace time.Duration
	// Kill is closed to end everything at once; it may be nil.
	Kill <-chan struct{}
	// RuntimeDigest returns the digest of this program, for traces; it may be nil.
	RuntimeDigest     func() string
	Version, Revision string
	Observer          Observer
	// Everything passes all events of steps on as they are, for programs; people see a step of the catalog as one step.
	Everything bool
	// Color says that what is observed is shown in colours: without it scripts' own are left out.
	Color bool
	// Verbose tells of more.
	Verbose bool
}

// ShellJob is the environment of a job that failed.
type ShellJob struct {
	Name        string
	Environment executor.Environment
	Dir         string
	Env         []string
}

// runner is a pipeline, or a part of it, that is being run.
type runner struct {
	project *Project
	o       *RunOptions
	id      string // names the run in the store: later ones sort behind it
	slots   chan int
	counter *atomic.Int64 // of jobs, across child pipelines
	issuer  *issuer
	levels  *session.Levels
	once    *said
	parent  *runner
	ctx     context.Context // of the whole run: child pipelines that nobody waits for outlive the schedule

	mu       sync.Mutex
	manifest map[*pipeline.Job]*store.Manifest // what jobs of this run left; nil for those that left nothing
	beside   map[*pipeline.Job][]Result        // child pipelines that nobody waited for
	children sync.WaitGroup                    // of those
}

// Run runs jobs and returns how each ended, in their order. Cancelling ctx stops them gracefully.
func (p *Project) Run(ctx context.Context, o RunOptions) []Result {
	if o.Concurrency < 1 {
		o.Concurrency = 1
	}
	r := &runner{
		project: p, o: &o, id: store.NewRun(), slots: make(chan int, o.Concurrency), counter: new(atomic.Int64),
		issuer: &issuer{publish: p.Store.WriteKeys}, levels: levelsOf(&o), once: &said{observer: o.Observer},
		manifest: map[*pipeline.Job]*store.Manifest{}, beside: map[*pipeline.Job][]Result{},
	}
	for i := range o.Concurrency {
		r.slots <- i
	}
	if on := p.Definition.Workflow.OnNewCommit; on != "" && o.Verbose {
		o.Observer.Say("", "workflow: auto_cancel: on_new_commit: "+on+" is about a newer pipeline, and there is none on one machine")
	}
	return r.all(ctx)
}

// all runs the runner's jobs.
func (r *runner) all(ctx context.Context) []Result {
	r.ctx = ctx
	s := &schedule{
		jobs: r.o.Jobs, run: r.job, report: r.finished, manual: r.startsByHand,
		stopOnFailure: r.project.stopsOnFailure(),
	}
	results := s.all(ctx)
	r.children.Wait()
	for i := range results {
		if children := r.beside[results[i].Job]; children != nil {
			results[i].Children = children
		}
	}
	return results
}

func (r *runner) finished(result Result) { r.o.Observer.Finished(result) }

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

// said tells things once, however many jobs they are about.
type said struct {
	observer Observer
	mu       sync.Mutex
	texts    map[string]bool
}

func (s *said) first(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]bool{}
	}
	again := s.texts[text]
	s.texts[text] = true
	return !again
}

func (s *said) say(text string) {
	if s.first(text) {
		s.observer.Say("", text)
	}
}

func levelsOf(o *RunOptions) *session.Levels {
	return &session.Levels{MakeNone: o.None, MakeContainer: o.Container}
}
