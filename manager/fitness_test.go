//go:build unix

package manager_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

func program(t *testing.T) string {
	t.Helper()
	file, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// broken is a level that opens, and prepares nothing.
type broken struct {
	executor.Executor
	level   executor.Level
	answers atomic.Bool // to Probe, until a job was to be prepared
}

func (b *broken) Level() executor.Level             { return b.level }
func (*broken) Capabilities() executor.Capabilities { return executor.Capabilities{} }
func (*broken) Sweep(context.Context) error         { return nil }
func (*broken) Close() error                        { return nil }
func (b *broken) Probe(context.Context, *executor.Job) error {
	if b.answers.Load() {
		return nil
	}
	return errors.New("the engine does not answer")
}

func (b *broken) Prepare(context.Context, *executor.Job, executor.Reporter) (executor.Environment, error) {
	b.answers.Store(false)
	return nil, errors.New("the engine has just ended")
}

// syncBuffer is what several goroutines write.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// unable waits until the first entry says why it cannot run jobs.
func (w *world) unable(why string) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		e := w.manager.State().Entries
		if len(e) > 0 && (why == "") == (e[0].Unable == "") && strings.Contains(e[0].Unable, why) {
			if why != "" && e[0].Healthy() {
				w.t.Error("the entry is healthy")
			}
			return
		}
		if time.Now().After(until) {
			w.t.Fatalf("the entry does not say %q: %+v", why, e)
		}
	}
}

func TestARunnerThatCannotRunJobsAsksForNoneUntilItCan(t *testing.T) {
	before := manager.UnfitPause(50 * time.Millisecond)
	t.Cleanup(func() { manager.UnfitPause(before) })
	w := newWorld(t)
	var jobs []*gitlabtest.Job
	for range 5 {
		jobs = append(jobs, w.server.Enqueue(script("true")))
	}
	o := w.options(w.configure("concurrent = 2\ncheck_interval = 1", ""), program(t))
	open := o.Open
	var there atomic.Bool
	o.Open = func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		if !there.Load() {
			return nil, errors.New("there is no engine")
		}
		return open(ctx, r, level, setup)
	}
	w.run(o)
	w.unable("the isolation level none cannot be used: there is no engine")
	for _, j := range jobs {
		if r := j.Result(); r.State != gitlab.Pending {
			t.Errorf("a job is %s", r.State)
		}
	}
	there.Store(true)
	for _, j := range jobs {
		if r := w.result(j); r.State != gitlab.Success {
			t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
		}
	}
	w.unable("")
}

func TestAJobThatCannotBePreparedMakesTheRunnerLookAgain(t *testing.T) {
	before := manager.UnfitPause(50 * time.Millisecond)
	t.Cleanup(func() { manager.UnfitPause(before) })
	w := newWorld(t)
	o := w.options(w.configure("concurrent = 1\ncheck_interval = 1", ""), program(t))
	var log syncBuffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	level := &broken{level: executor.None}
	level.answers.Store(true)
	o.Open = func(context.Context, *config.Runner, executor.Level, executor.Setup) (executor.Executor, error) {
		return level, nil
	}
	w.run(o)
	first := w.server.Enqueue(script("true"))
	second := w.server.Enqueue(script("true"))
	if r := w.result(first); r.State != gitlab.Failed || !strings.Contains(r.Log, "the engine has just ended") {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
	w.unable("the engine does not answer")
	if text := log.String(); !strings.Contains(text, `level=WARN msg="the job failed with an internal error"`) || !strings.Contains(text, `error="the engine has just ended"`) {
		t.Errorf("the log does not say why:\n%s", text)
	}
	if r := second.Result(); r.State != gitlab.Pending {
		t.Errorf("the second job is %s", r.State)
	}
}

func TestWhatKeepsARunnerFromAsking(t *testing.T) {
	for name, c := range map[string]struct{ entry, program, why string }{
		"limits that the level cannot keep":    {"[runners.policy]\nmemory = \"1g\"\nprocesses = 100\ncpus = \"2\"", "", "does not support resource limits"},
		"a network that the level cannot keep": {"[runners.policy]\nnetwork = \"none\"", "", "does not support the network policy"},
		"no step-runner":                       {"", "missing", "missing: no such file or directory"},
		"no shell":                             {"shell = \"cmd\"", "", "jobs are run by cmd, by shell in the configuration, and it is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.server.Enqueue(script("true"))
			file := c.program
			if file == "" {
				file = program(t)
			}
			w.run(w.options(w.configure("concurrent = 1\ncheck_interval = 1", c.entry), file))
			w.unable(c.why)
			if r := j.Result(); r.State != gitlab.Pending {
				t.Errorf("the job is %s\n%s", r.State, r.Log)
			}
		})
	}
}

// probed is a level that says whether it could run jobs.
type probed struct {
	executor.Executor
	broken *atomic.Bool
}

func (p probed) Probe(context.Context, *executor.Job) error {
	if p.broken.Load() {
		return errors.New("the engine does not answer")
	}
	return nil
}

func TestAJobThatIsHeldIsNotBegunWhileItsRunnerCannotRunJobs(t *testing.T) {
	every, pause, fit := manager.HeldEvery(100*time.Millisecond), manager.UnfitPause(50*time.Millisecond), manager.FitFor(0)
	t.Cleanup(func() { manager.HeldEvery(every); manager.UnfitPause(pause); manager.FitFor(fit) })
	w := newWorld(t)
	o := w.options(w.configure("concurrent = 2\ncheck_interval = 1", "[runners.policy]\nmax_jobs_per_project = 1"), program(t))
	open, broken, probes := o.Open, new(atomic.Bool), syncBuffer{}
	o.Log = slog.New(slog.NewTextHandler(&probes, nil))
	o.Open = func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		if broken.Load() {
			return nil, errors.New("there is no engine")
		}
		opened, err := open(ctx, r, level, setup)
		return probed{opened, broken}, err
	}
	w.run(o)
	ends := filepath.Join(w.dir, "ends")
	first := w.server.Enqueue(script("echo begun; while ! test -e " + ends + "; do sleep 0.1; done"))
	if err := first.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	second := w.server.Enqueue(script("echo it ran"))
	for until := time.Now().Add(time.Minute); !strings.Contains(probes.String(), "a job waits"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the second job does not wait")
		}
	}
	broken.Store(true)
	if err := os.WriteFile(ends, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.result(first); r.State != gitlab.Success {
		t.Errorf("the first job is %s\n%s", r.State, r.Log)
	}
	w.unable("the engine does not answer")
	time.Sleep(300 * time.Millisecond) // a few looks
	if r := second.Result(); r.State != gitlab.Pending {
		t.Errorf("while the level is broken, the second job is %s\n%s", r.State, r.Log)
	}
	broken.Store(false)
	if r := w.result(second); r.State != gitlab.Success || !strings.Contains(r.Log, "it ran") {
		t.Errorf("the second job is %s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}
