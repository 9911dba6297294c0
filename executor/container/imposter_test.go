package container_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	stepclient "github.com/rungci/rung/steps/service/client"
)

// imposterImage is an image whose entrypoint takes the place of the step-runner.
const imposterImage = "rung-test/imposter:1"

// imposter is a job in an image whose entrypoint has this role.
func imposter(t *testing.T, role string) *executor.Job {
	t.Helper()
	enginetest.Import(t, enginetest.Client(t), imposterImage, []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}, {Name: "tmp/", Mode: 0o1777},
		{Name: "imposter", Mode: 0o755, Content: forged.Imposter(t)},
	})
	j := job("imposter")
	j.Image.Name, j.Image.PullPolicies = imposterImage, []string{container.Never}
	j.Image.Entrypoint = []string{"/imposter", role}
	return j
}

// promised is when every environment has ended that fails its job.
const promised = 30 * time.Second

// clean holds that it ended about as soon as promised, and not after waiting again and again, and that nothing is left.
func clean(t *testing.T, dir string, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > 10*promised { // a machine that others use gets more
		t.Errorf("it took %s", took)
	}
	left, err := left(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q %v", left, err)
	}
}

func TestAnEntrypointThatNeverStartsTheStepRunnerIsTheImagesMistake(t *testing.T) {
	enginetest.Busybox(t)
	for role, want := range map[string]string{
		"exits": "ended with code 0 before its step-runner listened", "sleeps": "did not start within", "babbles": "did not start within",
	} {
		j := imposter(t, role)
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			dir, began := t.TempDir(), time.Now()
			_, err := prepare(t, options(dir), j)
			var user *executor.UserError
			if !errors.As(err, &user) || !strings.Contains(user.Message, want) || !strings.Contains(user.Hint, "entrypoint") {
				t.Errorf("the error is %v", err)
			}
			clean(t, dir, began)
		})
	}
}

func TestAnEntrypointThatTakesThePlaceOfTheStepRunnerEndsTheJob(t *testing.T) {
	enginetest.Busybox(t)
	most := session.MaxReported
	session.MaxReported = stepclient.Reported{Log: 16 << 20, Events: 16 << 20}
	t.Cleanup(func() { session.MaxReported = most })
	for _, role := range []string{
		"announces", "noise", "hangs up", "is silent", "shakes hands and hangs up", "another server", "ends too early", "nonsense", "endless log", "endless events",
	} {
		j := imposter(t, role)
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			dir, began := t.TempDir(), time.Now()
			e, err := options(dir).open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			env, err := e.Prepare(t.Context(), j, nil)
			if err != nil {
				t.Fatal(err)
			}
			events := &ending{}
			err = session.Run(t.Context(), nil, env, stepclient.Request{ID: "run", Text: "- script: echo never", WorkDir: env.Layout().Project}, events)
			t.Log(err)
			if wrong := session.AsError(t.Context(), err); wrong == nil || wrong.Kind != event.ErrorSystem {
				t.Errorf("the error is %+v, and the run ends with %q", wrong, events.status)
			}
			if err := errors.Join(env.Close(t.Context()), e.Close()); err != nil {
				t.Error(err)
			}
			clean(t, dir, began)
		})
	}
}

// ending is how a run ended.
type ending struct {
	status event.Status
	begun  func() // called when it starts; may be nil
}

// Event implements event.Sink.
func (e *ending) Event(one event.Event) {
	switch body := one.Body.(type) {
	case event.RunStarted:
		if e.begun != nil {
			e.begun()
		}
	case event.RunFinished:
		e.status = body.Status
	}
}

func TestAStepRunnerThatDoesNotStopIsGivenUp(t *testing.T) {
	enginetest.Busybox(t)
	j := imposter(t, "never ends")
	dir, began := t.TempDir(), time.Now()
	e, err := options(dir).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := &ending{begun: func() { cancel(&event.Stop{Code: event.CodeInterrupted, Reason: "interrupted"}) }}
	err = session.Run(ctx, nil, env, stepclient.Request{ID: "run", Text: "- script: echo never", WorkDir: env.Layout().Project}, stop)
	if wrong := session.AsError(ctx, err); wrong == nil || wrong.Code != event.CodeInterrupted {
		t.Errorf("it ends with %v", err)
	}
	if err := errors.Join(env.Close(t.Context()), e.Close()); err != nil {
		t.Error(err)
	}
	clean(t, dir, began)
}
