package executortest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

// ends are the cases of environments that end, or give too much.
type ends struct{ *suite }

// promptly bounds how long it may take until the end of an environment is noticed. The limits that levels keep make it 30 seconds; a machine
// that others use gets more.
const promptly = patience

// eachEnd tries every way in which an environment ends.
func (s *ends) eachEnd(t *testing.T, try func(t *testing.T, p *opened, end func(*testing.T, executor.Environment))) {
	if len(s.level.Ends) == 0 {
		t.Fatal("the level does not say how its environments can end")
	}
	for name, end := range s.level.Ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, s.open(t), end)
		})
	}
}

// eachStall tries every way in which an environment ends, or stops answering.
func (s *ends) eachStall(t *testing.T, try func(t *testing.T, p *opened, end func(*testing.T, executor.Environment))) {
	s.eachEnd(t, try)
	for name, stall := range s.level.Stalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, s.open(t), stall)
		})
	}
}

// wantGone checks an error, and that it came promptly.
func wantGone(t *testing.T, began time.Time, err error) {
	t.Helper()
	var gone *executor.Gone
	if !errors.Is(err, executor.ErrGone) || !errors.As(err, &gone) || gone.Reason == "" {
		t.Errorf("the error is %v, not that the environment is gone", err)
	}
	if took := time.Since(began); took > promptly {
		t.Errorf("it took %s", took)
	}
}

func (s *ends) endsBefore(t *testing.T) {
	s.eachStall(t, func(t *testing.T, p *opened, end func(*testing.T, executor.Environment)) {
		j := p.prepare(t, "before")
		end(t, j.Environment)
		began := time.Now()
		err := session.Run(t.Context(), nil, j.Environment, j.request("run", "echo never"), &collected{})
		wantGone(t, began, err)
	})
}

func (s *ends) endsInStep(t *testing.T) {
	s.eachStall(t, func(t *testing.T, p *opened, end func(*testing.T, executor.Environment)) {
		j := p.prepare(t, "step")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var began time.Time
		events := &collected{seen: func(text string) {
			if strings.Contains(text, "begun") {
				end(t, j.Environment)
				began = time.Now()
				if t.Failed() { // it has not ended
					cancel()
				}
			}
		}}
		err := session.Run(ctx, nil, j.Environment, j.request("run", "echo begun; sleep 600"), events)
		wantGone(t, began, err)
	})
}

func (s *ends) endsWhileCopying(t *testing.T) {
	s.eachEnd(t, func(t *testing.T, p *opened, end func(*testing.T, executor.Environment)) {
		j := p.prepare(t, "copy")
		r, w := io.Pipe() // an archive that does not end
		defer w.Close()
		sent := make(chan error, 1)
		go func() { sent <- session.Unpack(t.Context(), j.Environment, j.Layout().Project, r) }()
		end(t, j.Environment)
		began := time.Now()
		select {
		case err := <-sent:
			wantGone(t, began, err)
		case <-time.After(promptly):
			t.Fatal("it goes on copying")
		}
	})
}

// fetchesAfter fetches from an environment that has ended, or does not answer: the host hands the files out, or says that it is gone.
func (s *ends) fetchesAfter(t *testing.T) {
	s.eachStall(t, func(t *testing.T, p *opened, end func(*testing.T, executor.Environment)) {
		j := p.prepare(t, "after")
		if log, err := j.script(t, "mkdir out; echo made >out/file"); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		end(t, j.Environment)
		began, to := time.Now(), filepath.Join(t.TempDir(), "out")
		if err := session.Fetch(t.Context(), j.Environment, j.Layout().Project+"/out", to); err != nil {
			wantGone(t, began, err)
			return
		}
		if text, err := os.ReadFile(filepath.Join(to, "file")); err != nil || string(text) != "made\n" {
			t.Errorf("it fetches %q, %v", text, err)
		}
	})
}

func (s *ends) killsItsRunner(t *testing.T) {
	j := s.open(t).prepare(t, "suicide")
	began := time.Now()
	err := session.Run(t.Context(), nil, j.Environment, j.request("run", "kill -9 $PPID; sleep 600"), &collected{})
	wantGone(t, began, err)
}

// limits starts a run with the timeout of 336 hours that GitLab allows, and a definition of several megabytes.
func (s *ends) limits(t *testing.T) {
	j := s.open(t).prepare(t, "limits")
	request := j.request("long", "echo hello\n: "+strings.Repeat("x", 5<<20))
	request.Timeout = 336 * time.Hour
	events := &collected{}
	if err := session.Run(t.Context(), nil, j.Environment, request, events); err != nil || events.status() != event.Success {
		t.Errorf("it ends with %q, %v", events.status(), err)
	}
}

func (s *ends) fetchTooMuch(t *testing.T) {
	j := s.open(t).prepare(t, "much")
	if log, err := j.script(t, "mkdir out; dd if=/dev/zero of=out/holes bs=1 count=1 seek=100M"); err != nil {
		t.Skipf("needs dd with holes: %v\n%s", err, log)
	}
	bounds := session.Allowance
	bounds.Bytes = 50 << 20
	dir := t.TempDir()
	to := filepath.Join(dir, "out")
	err := session.FetchWithin(t.Context(), j.Environment, j.Layout().Project+"/out", to, bounds)
	var user *executor.UserError
	if !errors.As(err, &user) {
		t.Errorf("the error is %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	if err := session.FetchWithin(ctx, j.Environment, j.Layout().Project+"/out", to, bounds); !errors.Is(err, errEnough) {
		t.Errorf("after its time it ends with %v", err)
	}
}

var errEnough = errors.New("the job's time is over")

// collected are the events of a run.
type collected struct {
	seen func(text string) // called with the log so far

	mu     sync.Mutex
	log    strings.Builder
	last   int64
	result event.Status
	// failure is why the run failed.
	failure *event.Error
}

// Event implements event.Sink.
func (c *collected) Event(e event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = e.Seq
	switch b := e.Body.(type) {
	case event.Log:
		c.log.Write(b.Data)
		if c.seen != nil {
			c.seen(c.log.String())
		}
	case event.RunFinished:
		c.result, c.failure = b.Status, b.Error
	}
}

func (c *collected) status() event.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}
