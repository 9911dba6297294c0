package remotefiles_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// program is one that runs on a host: here it is part of the test.
type program struct {
	over chan struct{}
	code int
	err  error
	kill context.CancelCauseFunc
}

func (p *program) PID() int               { return 1 }
func (p *program) Resize(host.Size) error { return nil }
func (p *program) Kill() error            { p.kill(host.ErrKilled); return nil }
func (p *program) Wait() (int, error)     { <-p.over; return p.code, p.err }

// machine starts programs, and remembers them.
type machine struct {
	serve func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int

	mu      sync.Mutex
	started []*program
}

func (m *machine) start(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (host.Process, error) {
	p := &program{over: make(chan struct{})}
	ctx, p.kill = context.WithCancelCause(ctx)
	m.mu.Lock()
	m.started = append(m.started, p)
	m.mu.Unlock()
	ended := make(chan int, 1)
	go func() { ended <- m.serve(ctx, args, in, out, errs) }()
	go func() {
		defer close(p.over)
		select {
		case p.code = <-ended:
		case <-ctx.Done():
			_ = in.(io.Closer).Close() // it reads nothing more
			<-ended
			p.code, p.err = -1, context.Cause(ctx)
		}
	}()
	return p, nil
}

func files(m *machine) *remotefiles.Client {
	s := &remotefiles.Sessions{Start: m.start, Trust: 1}
	return &remotefiles.Client{Run: func(ctx context.Context, args []string, _ io.Reader, out, errs io.Writer) (int, error) {
		if !remotefiles.Brief(args) {
			return -1, fmt.Errorf("%q is not brief", args)
		}
		return s.Run(ctx, args, out, errs)
	}}
}

func serving() *machine {
	return &machine{serve: func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
		return remotefiles.Serve(ctx, local.Files{}, args, in, out, errs)
	}}
}

func TestOneProgramDoesManyThings(t *testing.T) {
	m, dir := serving(), t.TempDir()
	f := files(m)
	for i := range 20 {
		if err := f.Mkdir(t.Context(), filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Mkdir(t.Context(), filepath.Join(dir, "7"), 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("what exists is made again: %v", err)
	}
	if _, err := f.Stat(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what does not exist is described: %v", err)
	}
	if info, err := f.Stat(t.Context(), filepath.Join(dir, "7")); err != nil || !info.Mode.IsDir() {
		t.Errorf("got %+v, %v", info, err)
	}
	if env, err := f.Environ(t.Context()); err != nil || len(env) == 0 {
		t.Errorf("got %q, %v", env, err)
	}
	if err := f.RemoveAll(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if len(m.started) != 1 {
		t.Errorf("%d programs were started", len(m.started))
	}
}

func TestCallsAtTheSameTimeHaveAProgramEach(t *testing.T) {
	m, dir := serving(), t.TempDir()
	f := files(m)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := f.Mkdir(t.Context(), filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := f.Mkdir(t.Context(), filepath.Join(dir, "last"), 0o700); err != nil {
		t.Error(err)
	}
	// All but the one that waits end with their input.
	ended := make(chan struct{}, len(m.started))
	for _, p := range m.started {
		go func() { <-p.over; ended <- struct{}{} }()
	}
	for range len(m.started) - 1 {
		<-ended
	}
}

func TestAProgramThatHasEndedIsStartedAgain(t *testing.T) {
	m := serving()
	f := files(m)
	for range 3 {
		if _, err := f.Temp(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = m.started[len(m.started)-1].Kill()
		<-m.started[len(m.started)-1].over
	}
	if _, err := f.Temp(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestACallThatIsGivenUpEndsItsProgram(t *testing.T) {
	asked := make(chan struct{}, 1)
	m := &machine{serve: func(ctx context.Context, _ []string, in io.Reader, _, _ io.Writer) int {
		_, _ = in.Read(make([]byte, 1000))
		asked <- struct{}{}
		<-ctx.Done() // it does not answer
		return 1
	}}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() { <-asked; cancel(why) }()
	if _, err := files(m).Temp(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	<-m.started[0].over
}

func TestAProgramOfAnotherKind(t *testing.T) {
	for says, want := range map[string]string{
		"hello\n":                              "does not answer in JSON",
		"":                                     "ended with exit code 2: I know no session",
		strings.Repeat(" ", 100_000):           "does not answer in JSON",
		`{"error": {"message": "odd"}}` + "\n": "odd",
	} {
		m := &machine{serve: func(ctx context.Context, _ []string, in io.Reader, out, errs io.Writer) int {
			_, _ = in.Read(make([]byte, 1000))
			if says == "" {
				_, _ = io.WriteString(errs, "I know no session\n")
				return 2
			}
			_, _ = io.WriteString(out, says)
			<-ctx.Done()
			return 0
		}}
		if _, err := files(m).Temp(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", says, err, want)
		}
	}
}

func TestOnlyBriefOperationsAreServedOneAfterAnother(t *testing.T) {
	var out strings.Builder
	code := remotefiles.Serve(t.Context(), local.Files{}, []string{"session"}, strings.NewReader(`["pack", "/"] ["session"] []`), &out, io.Discard)
	if got := strings.Count(out.String(), "is not a brief operation"); code != 0 || got != 3 {
		t.Errorf("got %d, %s", code, out.String())
	}
}
