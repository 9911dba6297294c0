//go:build unix

package job_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/steps/event"
)

// TestALevelThatFails tries what can go wrong at each call of a level. Whatever does, the job ends once, with the right reason.
func TestALevelThatFails(t *testing.T) {
	broken := errors.New("the host is on fire")
	image := &executor.UserError{Message: "there is no image node:99", Err: &executor.PullError{Image: "node:99", Err: errors.New("not found")}}
	tests := []struct {
		name   string
		level  *fake.Executor
		second bool // the job has one second
		reason string
		log    string
		note   string // of the runner's own log
	}{
		{"nothing", &fake.Executor{}, false, "", "Job succeeded", ""},
		{"making the environment fails", &fake.Executor{At: act(fake.Prepare, fake.Fail(broken))}, false, "runner_system_failure", "(system failure): the host is on fire", ""},
		{"the job asks for what is not there", &fake.Executor{At: act(fake.Prepare, fake.Fail(image))}, false, "image_pull_failure", "there is no image node:99", ""},
		{"the level cannot do what is asked", &fake.Executor{Can: &executor.Capabilities{Image: true}}, false, "runner_configuration_error", "does not support services", ""},
		// Case 80: what is left of the job's time bounds how long its environment may take.
		{"making the environment takes longer than the job may", &fake.Executor{At: act(fake.Prepare, fake.Hang)}, true, "job_execution_timeout", "execution took longer than 1s", ""},
		{"files cannot be sent", &fake.Executor{At: act(fake.Send, fake.Fail(broken))}, false, "runner_system_failure", "the host is on fire", ""},
		{"there is no connection", &fake.Executor{At: act(fake.Connect, fake.Fail(broken))}, false, "runner_system_failure", "", ""},
		{"removing the environment fails", &fake.Executor{At: act(fake.Close, fake.Fail(broken))}, false, "", "Job succeeded", "the host is on fire"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			from := script("true")
			from.Image, from.Services = &gitlab.Image{Name: "node:99"}, []gitlab.Image{{Name: "postgres:17"}}
			from.Variables = append(from.Variables, gitlab.Variable{Key: "A_FILE", Value: "text", File: true})
			from.Features.FailureReasons = []string{"image_pull_failure", "runner_configuration_error"}
			if test.second {
				from.Runner.Timeout = 1
			}
			theirs, ours := w.take(from)
			o := w.options()
			o.Level, o.PreparePause = test.level, time.Millisecond
			began := time.Now()
			ended := job.Run(t.Context(), nil, ours, w.self(), o)
			w.clean()
			got := theirs.Result()
			if took := time.Since(began); took > longer {
				t.Errorf("it took %s", took)
			}
			if got.FailureReason != test.reason || !strings.Contains(got.Log, test.log) {
				t.Errorf("%s %s (%+v)\n%s", got.State, got.FailureReason, ended, got.Log)
			}
			if test.note != "" && !strings.Contains(errors.Join(w.notes...).Error(), test.note) {
				t.Errorf("the notes are %v", w.notes)
			}
			if left := test.level.Environments(); len(left) > 0 && test.note == "" {
				t.Errorf("%d environments are left", len(left))
			}
		})
	}
}

// TestAnEnvironmentThatCannotBeMadeForAMoment is what gitlab-runner does, too: three attempts, unless the job itself is the reason.
func TestAnEnvironmentThatCannotBeMadeForAMoment(t *testing.T) {
	away := errors.New("the engine does not answer")
	none := &executor.PullError{Image: "node:99", Err: errors.New("not found")}
	tests := []struct {
		name     string
		fails    []error // the first attempts
		attempts int
		reason   string
		log      string
	}{
		{"at once", nil, 1, "", ""},
		{"the engine is away once", []error{away}, 2, "", "WARNING: attempt 1 of 3 to make the environment failed, the next one is in 10ms: the engine does not answer"},
		{"the registry is away twice", []error{&executor.PullError{Image: "node:99", Err: errors.New("connection refused")}, away}, 3, "", "attempt 2 of 3"},
		{"the environment ends at once", []error{&executor.Gone{Reason: "the machine was taken away"}}, 2, "", "the machine was taken away"},
		{"the engine stays away", []error{away, away, away, nil}, 3, "runner_system_failure", "(system failure): the engine does not answer"},
		{"there is no such image", []error{&executor.UserError{Message: "there is no image node:99", Err: none}}, 1, "image_pull_failure", "there is no image node:99"},
		{"the level refuses it", []error{&executor.Refusal{What: "services"}}, 1, "runner_configuration_error", ""},
		{"a rule refuses it", []error{event.NewError(event.CodeEnvironmentInvalid, "not here")}, 1, "runner_configuration_error", "not here"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			from := script("true")
			from.Image = &gitlab.Image{Name: "node:99"}
			from.Features.FailureReasons = []string{"image_pull_failure", "runner_configuration_error"}
			theirs, ours := w.take(from)
			o := w.options()
			o.PreparePause = 10 * time.Millisecond
			attempts, removed := 0, 0
			o.Left = func(remove func(context.Context) error) { _ = remove(t.Context()) }
			o.Level = &fake.Executor{At: act(fake.Prepare, func(context.Context) error {
				attempts++
				if attempts > len(test.fails) {
					return nil
				}
				return errors.Join(test.fails[attempts-1], &executor.LeftError{Err: errors.New("a pod is left"), Remove: func(context.Context) error {
					removed++
					return nil
				}})
			})}
			job.Run(t.Context(), nil, ours, w.self(), o)
			w.clean()
			got := theirs.Result()
			if want := min(attempts, len(test.fails)); removed != want {
				t.Errorf("what %d attempts have left was given away %d times", want, removed)
			}
			if got.FailureReason != test.reason || attempts != test.attempts || !strings.Contains(got.Log, test.log) {
				t.Errorf("%d attempts: %s %s\n%s", attempts, got.State, got.FailureReason, got.Log)
			}
		})
	}
}

func TestAJobThatEndsDoesNotWaitForTheNextAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	from := script("true")
	from.Image = &gitlab.Image{Name: "node:99"}
	theirs, ours := w.take(from)
	o := w.options()
	o.PreparePause = time.Hour
	o.Level = &fake.Executor{At: act(fake.Prepare, fake.Fail(errors.New("the engine does not answer")))}
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		if theirs.WaitLog(t.Context(), "attempt 1 of 3") == nil {
			stop(&event.Stop{Code: event.CodeTerminated, Reason: "the runner is stopped"})
		}
	}()
	job.Run(ctx, nil, ours, w.self(), o)
	w.clean()
	if got := theirs.Result(); !strings.Contains(got.Log, "Job failed: aborted: the runner is stopped") {
		t.Errorf("%s\n%s", got.FailureReason, got.Log)
	}
}

func act(at fake.Call, what fake.Act) map[fake.Call]fake.Act { return map[fake.Call]fake.Act{at: what} }

func TestAJobThatCannotHaveALogHereSaysWhyItFails(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*testing.T, *world, *job.Options)
		log   string
	}{
		{"its record finds no room", func(_ *testing.T, _ *world, o *job.Options) {
			o.Keep = func(job.Record) error { return &fs.PathError{Op: "write", Path: "jobs", Err: syscall.ENOSPC} }
		}, "(system failure): cannot record the state of the job: write jobs: no space left on device"},
		{"its folder cannot be made", func(t *testing.T, w *world, o *job.Options) {
			o.Folder = filepath.Join(w.dir, "a file", "1")
			if err := os.WriteFile(filepath.Dir(o.Folder), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "a file: not a directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			theirs, ours := w.take(script("true"))
			o := w.options()
			test.spoil(t, w, &o)
			began := time.Now()
			ended := job.Run(t.Context(), nil, ours, w.self(), o)
			w.clean()
			got := theirs.Result()
			if took := time.Since(began); took > longer {
				t.Errorf("it took %s", took)
			}
			if got.State != gitlab.Failed || got.FailureReason != "runner_system_failure" || !strings.Contains(got.Log, "Running with rung test") || !strings.Contains(got.Log, test.log) {
				t.Errorf("%s %s\n%s", got.State, got.FailureReason, got.Log)
			}
			if ended.Err == nil || ended.Final.State != gitlab.Failed {
				t.Errorf("it ended %+v", ended)
			}
		})
	}
}

func TestAnEnvironmentThatDiesUnderAJob(t *testing.T) {
	w := newWorld(t)
	level := &fake.Executor{Run: func(ctx context.Context, r *fake.Run) event.Status {
		r.Log("begun\n")
		<-ctx.Done()
		return event.Failure
	}}
	from := script("true")
	from.Image = &gitlab.Image{Name: "node:99"}
	theirs, ours := w.take(from)
	o := w.options()
	o.Level = level
	go func() {
		if theirs.WaitLog(t.Context(), "begun") == nil {
			level.Environments()[0].Finish(&executor.Gone{Reason: "the machine was taken away"})
		}
	}()
	job.Run(t.Context(), nil, ours, w.self(), o)
	w.clean()
	if got := theirs.Result(); got.FailureReason != "runner_system_failure" || !strings.Contains(got.Log, "the machine was taken away") {
		t.Errorf("%s\n%s", got.FailureReason, got.Log)
	}
}

func TestAnAdoptedJobWaitsForItsPlaceToAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := 0
	level := &fake.Executor{At: act(fake.Recover, func(context.Context) error {
		if late++; late < 4 {
			return errors.New("the engine is not there yet")
		}
		return nil
	})}
	theirs, ours := w.take(script("true"))
	env, err := level.Prepare(t.Context(), &executor.Job{ID: "job-1", ProjectName: "project"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	level.Abandon()
	handle := env.Handle()
	o := w.options()
	o.Level = level
	job.Adopt(t.Context(), nil, job.Record{Payload: ours, Runner: w.self(), Level: level.Level(), Handle: &handle, Began: time.Now()}, o)
	w.clean()
	if got := theirs.Result(); got.State != gitlab.Success {
		t.Errorf("%s\n%s", got.FailureReason, got.Log)
	}
	if said := errors.Join(w.notes...); said == nil || strings.Count(said.Error(), "the engine is not there yet") != 1 {
		t.Errorf("the notes are %v", said)
	}
}
