package executortest

import (
	"archive/tar"
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
)

// Loss is the loss of what environments stand on: their host, or the engine on it.
type Loss struct {
	// Level is on what is lost.
	Level Level
	// Lose ends it, or makes it silent.
	Lose func()
	// Restore brings it back, and returns the level on it.
	Restore func() Level
}

// RunLoss loses what several jobs stand on: one has not begun, one is in a step, files are copied to one and out of another. Every one
// says that its environment is gone. When what was lost is back, a sweep leaves nothing.
func RunLoss(t *testing.T, loss Loss) {
	p := &opened{dir: shortDir(t), level: loss.Level}
	var err error
	if p.Executor, err = p.level.New(p.dir, executor.Lease{}); err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	var began time.Time // set before lost is closed
	var ready, ended sync.WaitGroup
	var envs []executor.Environment
	for name, try := range map[string]func(*lossCase) error{
		"before": (*lossCase).before, "step": (*lossCase).inStep, "sending": (*lossCase).sending, "fetching": (*lossCase).fetching,
	} {
		env, err := p.Prepare(t.Context(), p.level.Job(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		envs = append(envs, env)
		ready.Add(1)
		c := &lossCase{job: &job{Environment: env}, dir: t.TempDir(), ctx: t.Context(), ready: sync.OnceFunc(ready.Done), lost: lost}
		ended.Go(func() {
			err := try(c)
			c.ready() // it may have failed before
			<-lost
			t.Logf("%s: %v", name, err)
			wantGone(t, began, err)
		})
	}
	ready.Wait()
	loss.Lose()
	began = time.Now()
	close(lost)
	ended.Wait()
	for _, env := range envs {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = env.Close(ctx) // nobody is there to do it
		cancel()
	}
	_ = p.Executor.Close()
	again := loss.Restore()
	e, err := again.New(p.dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	awaitNone(t, "left after a sweep", func() ([]string, error) { return again.Left(p.dir) }, func() error { return e.Sweep(t.Context()) })
}

// lossCase is a job at one point.
type lossCase struct {
	*job
	dir   string // on this machine
	ctx   context.Context
	ready func()          // says that it is at that point
	lost  <-chan struct{} // closed when the loss has happened
}

func (c *lossCase) before() error {
	c.ready()
	<-c.lost
	return session.Run(c.ctx, nil, c.Environment, c.request("run", "echo never"), &collected{})
}

func (c *lossCase) inStep() error {
	return session.Run(c.ctx, nil, c.Environment, c.request("run", "echo begun; sleep 600"), &collected{seen: func(text string) {
		if strings.Contains(text, "begun") {
			c.ready()
		}
	}})
}

// sending sends an archive whose second file never ends.
func (c *lossCase) sending() error {
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		archive := tar.NewWriter(w)
		for _, name := range []string{"first", "second"} {
			if archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: copied, Mode: 0o600}) != nil {
				return
			}
			if name == "second" {
				c.ready()
				return
			}
			_, _ = archive.Write(make([]byte, copied))
		}
	}()
	return session.Unpack(c.ctx, c.Environment, c.Layout().Project, r)
}

// copied is how long files are that are being copied, in bytes: more than buffers on the way hold.
const copied = 32 << 20

// fetching fetches a file of which most is still to come.
func (c *lossCase) fetching() error {
	big := c.Layout().Project + "/out/big"
	if err := session.SendText(c.ctx, c.Environment, big, strings.Repeat("x", copied)); err != nil {
		return err
	}
	return session.Fetch(c.ctx, &slowly{c.Environment, c}, c.Layout().Project+"/out", filepath.Join(c.dir, "out"))
}

// slowly is an environment whose files are taken from only when it is lost.
type slowly struct {
	executor.Environment
	of *lossCase
}

// Fetch implements executor.Environment.
func (s *slowly) Fetch(ctx context.Context, path string, archive io.Writer) error {
	return s.Environment.Fetch(ctx, path, writerFunc(func(p []byte) (int, error) {
		s.of.ready()
		<-s.of.lost
		return archive.Write(p)
	}))
}
