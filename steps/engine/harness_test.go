package engine_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/actions"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/toolkit/github"
	"github.com/rungci/rung/steps/value"
)

// job is a list of steps and the world it runs in.
type job struct {
	steps string            // YAML; the list is at STEPS
	files map[string]string // in the work directory; a name that ends in .sh is executable
	opts  engine.Options    // what the test wants to be different
	ctx   context.Context
	dir   string // the work directory, where it is not a fresh one
}

// ran is what came of a job.
type ran struct {
	*engine.Result
	t      *testing.T
	dir    string
	events []event.Event
}

// run runs the job in a fresh work directory with a small host environment.
func (j job) run(t *testing.T) *ran {
	t.Helper()
	component, err := gitlabsteps.ParseSteps("STEPS", []byte(j.steps))
	if err != nil {
		t.Fatalf("the job does not compile:\n%v", err)
	}
	return j.runComponent(t, component)
}

func (j job) runComponent(t *testing.T, component *plan.Component) *ran {
	t.Helper()
	dir := j.dir
	if dir == "" {
		dir = t.TempDir()
		writeFiles(t, dir, j.files)
	}
	r := &ran{t: t, dir: dir}
	opts := j.opts
	opts.Component, opts.Text = component, []byte(j.steps)
	opts.Dir, opts.WorkDir = dir, dir
	opts.HostEnv = append([]string{"PATH=" + os.Getenv("PATH")}, opts.HostEnv...)
	if from, ok := opts.Source.(*elsewhere); ok {
		from.WorkDir = dir
	}
	if opts.Source == nil {
		opts.Source = &source.Local{Parse: gitlabsteps.ParseFile, ParseAction: actions.Parse}
	}
	if opts.Toolkits == nil {
		opts.Toolkits = map[string]engine.Toolkit{plan.ToolkitGitHub: github.Begin, plan.ToolkitGitHubAction: github.Begin}
	}
	if opts.Functions == nil {
		opts.Functions = github.Functions
	}
	opts.ParseReference = func(text string) (*plan.Reference, error) {
		return gitlabsteps.ParseStaticReference(text, diag.Span{})
	}
	var mu sync.Mutex
	sink := opts.Sink
	opts.Sink = sinkFunc(func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if l, ok := e.Body.(event.Log); ok {
			l.Data = bytes.Clone(l.Data)
			e.Body = l
		}
		r.events = append(r.events, e)
		if sink != nil {
			sink.Event(e)
		}
	})
	ctx := j.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	r.Result = engine.Run(ctx, opts)
	return r
}

type sinkFunc func(event.Event)

func (f sinkFunc) Event(e event.Event) { f(e) }

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// log is all that the steps wrote, in order.
func (r *ran) log() string {
	var b bytes.Buffer
	for _, e := range r.events {
		if l, ok := e.Body.(event.Log); ok {
			b.Write(l.Data)
		}
	}
	return b.String()
}

// finished returns the last event of the step with the given name, wherever it is.
func (r *ran) finished(name string) event.StepFinished {
	r.t.Helper()
	id := r.id(name)
	for _, e := range r.events {
		if f, ok := e.Body.(event.StepFinished); ok && e.Step == id {
			return f
		}
	}
	r.t.Fatalf("the step %q did not finish", name)
	return event.StepFinished{}
}

func (r *ran) id(name string) string {
	r.t.Helper()
	for _, e := range r.events {
		switch b := e.Body.(type) {
		case event.StepStarted:
			if b.Name == name {
				return e.Step
			}
		case event.StepSkipped:
			if b.Name == name {
				return e.Step
			}
		}
	}
	r.t.Fatalf("there is no step %q", name)
	return ""
}

// skipped returns why the step was skipped, "" when it was not.
func (r *ran) skipped(name string) string {
	for _, e := range r.events {
		if s, ok := e.Body.(event.StepSkipped); ok && s.Name == name {
			return s.Reason
		}
	}
	return ""
}

func bodies[T event.Body](r *ran) []T {
	var found []T
	for _, e := range r.events {
		if b, ok := e.Body.(T); ok {
			found = append(found, b)
		}
	}
	return found
}

// succeeds fails the test unless the run succeeded.
func (r *ran) succeeds() *ran {
	r.t.Helper()
	if r.Status != event.Success {
		r.t.Fatalf("status %s, error %+v\nlog:\n%s", r.Status, r.Error, r.log())
	}
	return r
}

// fails fails the test unless the run failed with the kind of error and every text in its message or hint.
func (r *ran) fails(kind event.ErrorKind, texts ...string) *ran {
	r.t.Helper()
	if r.Error == nil {
		r.t.Fatalf("the run has status %s, want an error of kind %s\nlog:\n%s", r.Status, kind, r.log())
	}
	if r.Error.Kind != kind {
		r.t.Errorf("error kind %s (%s), want %s", r.Error.Kind, r.Error.Message, kind)
	}
	for _, text := range texts {
		if !strings.Contains(r.Error.Error()+"\n"+r.Error.Hint, text) {
			r.t.Errorf("the error %q (hint %q) does not say %q", r.Error.Error(), r.Error.Hint, text)
		}
	}
	return r
}

// logs fails the test unless the steps wrote exactly this.
func (r *ran) logs(want string) *ran {
	r.t.Helper()
	if got := r.log(); got != want {
		r.t.Errorf("log:\n%q\nwant:\n%q", got, want)
	}
	return r
}

func outputOf(t *testing.T, outputs map[string]value.Value, name string) string {
	t.Helper()
	v, ok := outputs[name]
	if !ok {
		t.Fatalf("there is no output %q in %v", name, outputs)
	}
	return string(v.AppendJSON(nil))
}

// counts are those of the last event.
func (r *ran) counts() event.Counts {
	return r.events[len(r.events)-1].Body.(event.RunFinished).Counts
}
