package fake_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// heard are the events of a run.
type heard struct {
	mu   sync.Mutex
	log  strings.Builder
	last int64
	end  event.RunFinished
	seen func(string)
}

// Event implements event.Sink.
func (h *heard) Event(e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = e.Seq
	switch b := e.Body.(type) {
	case event.Log:
		h.log.Write(b.Data)
		if h.seen != nil {
			h.seen(h.log.String())
		}
	case event.RunFinished:
		h.end = b
	}
}

func prepare(t *testing.T, e *fake.Executor, id string) executor.Environment {
	t.Helper()
	env, err := e.Prepare(t.Context(), &executor.Job{ID: id, ProjectName: "shop"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close(context.Background()) })
	return env
}

func TestASessionRunsWhatTheTestSays(t *testing.T) {
	e := &fake.Executor{Run: func(_ context.Context, r *fake.Run) event.Status {
		r.Log("hello\n")
		r.Put("/builds/shop/out", "made")
		r.Fail(event.CodeExitStatus, "exit status 3")
		return event.Failure
	}}
	defer e.Close()
	env, to := prepare(t, e, "one"), &heard{}
	if err := session.Run(t.Context(), nil, env, client.Request{ID: "run", Text: "[]"}, to); err != nil {
		t.Fatal(err)
	}
	if to.log.String() != "hello\n" || to.end.Status != event.Failure || to.end.Error.Code != event.CodeExitStatus {
		t.Errorf("the log is %q, and it ends with %+v", to.log.String(), to.end)
	}
	if dir := t.TempDir(); session.Fetch(t.Context(), env, "/builds/shop/out", dir+"/out") != nil {
		t.Error("what the run made is not there")
	}
}

func TestARunThatIsCancelledEndsAsItsStopSays(t *testing.T) {
	e := &fake.Executor{Run: func(ctx context.Context, r *fake.Run) event.Status {
		r.Log("begun\n")
		<-ctx.Done()
		return event.Success
	}}
	defer e.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	to := &heard{seen: func(string) { cancel(&event.Stop{Code: event.CodeInterrupted, Reason: "enough"}) }}
	if err := session.Run(ctx, nil, prepare(t, e, "one"), client.Request{ID: "run", Text: "[]"}, to); err != nil {
		t.Fatal(err)
	}
	if to.end.Status != event.Cancelled || to.end.Error.Code != event.CodeInterrupted {
		t.Errorf("it ends with %+v", to.end)
	}
}

func TestAnHeirGoesOnWhereTheOwnerWas(t *testing.T) {
	release := make(chan struct{})
	e := &fake.Executor{Lease: executor.Lease{Owner: "me", Keep: time.Hour}, Run: func(_ context.Context, r *fake.Run) event.Status {
		r.Log("one\n")
		<-release
		r.Log("two\n")
		return event.Success
	}}
	defer e.Close()
	env, first := prepare(t, e, "one"), &heard{}
	first.seen = func(string) { go e.Abandon() }
	if err := session.Run(t.Context(), nil, env, client.Request{ID: "run", Text: "[]"}, first); !errors.Is(err, executor.ErrGone) {
		t.Fatalf("the owner's end: %v", err)
	}
	heir, err := e.Recover(t.Context(), env.Handle())
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	rest := &heard{}
	if err := session.Resume(t.Context(), nil, heir, session.Position{ID: "run", After: first.last}, rest); err != nil {
		t.Fatal(err)
	}
	if got := first.log.String() + rest.log.String(); got != "one\ntwo\n" {
		t.Errorf("the log is %q", got)
	}
	if _, err := e.Recover(t.Context(), env.Handle()); !errors.Is(err, executor.ErrOwned) {
		t.Errorf("taking over from the living: %v", err)
	}
}

func TestEveryCallCanFail(t *testing.T) {
	wrong := errors.New("wrong")
	e := &fake.Executor{At: map[fake.Call]fake.Act{}}
	for _, call := range fake.Calls {
		if call != fake.Prepare {
			e.At[call] = fake.Fail(wrong)
		}
	}
	env := prepare(t, e, "one")
	_, connecting := env.Connect(t.Context())
	_, recovering := e.Recover(t.Context(), env.Handle())
	_, shell := env.Shell(t.Context(), &executor.Shell{})
	for call, err := range map[fake.Call]error{
		fake.Connect: connecting, fake.Recover: recovering, fake.Shell: shell, fake.Check: env.Check(t.Context()), fake.Send: env.Send(t.Context(), "/", nil),
		fake.Fetch: env.Fetch(t.Context(), "/", nil), fake.Detach: env.Detach(), fake.Close: env.Close(t.Context()), fake.Sweep: e.Sweep(t.Context()), fake.CloseExecutor: e.Close(),
	} {
		if !errors.Is(err, wrong) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestAThousandQuietJobsAreCheap bounds what the environments take, beside what their sessions do.
func TestAThousandQuietJobsAreCheap(t *testing.T) {
	const jobs, most = 1000, 64 << 10
	begun := make(chan struct{}, jobs)
	e := &fake.Executor{Run: func(ctx context.Context, _ *fake.Run) event.Status {
		begun <- struct{}{}
		<-ctx.Done()
		return event.Success
	}}
	defer e.Close()
	before := allocated()
	var conns []*client.Client
	for n := range jobs {
		env := prepare(t, e, fmt.Sprintf("job-%d", n))
		c, err := client.Dial("fake", client.WithDialer(env.Connect))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if err := c.Run(t.Context(), client.Request{ID: "run", Text: "[]"}); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	t.Logf("%d bytes a job with the client of each connected", (allocated()-before)/jobs)
	for _, c := range conns {
		_ = c.Disconnect()
	}
	if each := (allocated() - before) / jobs; each > most {
		t.Errorf("%d bytes a job, not at most %d", each, most)
	}
}

func allocated() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
