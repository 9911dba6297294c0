package none

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/archive"
)

// environment is one job's folder and step-runner.
type environment struct {
	executor *Executor
	root     string
	keep     bool
	layout   executor.Layout
	listener *listener
	runner   StepRunner
	served   chan struct{} // closed when the step-runner has ended

	entering sync.Mutex // held while a shell is counted, and while ended ends
	shells   sync.WaitGroup
	ended    context.Context // ends with the environment
	end      context.CancelFunc
	closing  sync.Mutex
	closed   bool
}

// start makes the folders and the step-runner.
func (v *environment) start(job *executor.Job) (err error) {
	project := filepath.Join(v.root, job.ProjectName)
	v.layout = executor.Layout{Project: project, Temp: project + ".tmp", Bin: v.executor.bin(), Shared: true}
	v.ended, v.end = context.WithCancel(context.Background())
	if err := errors.Join(os.Mkdir(project, 0o755), os.Mkdir(v.layout.Temp, 0o700)); err != nil {
		return fmt.Errorf("making the job's folders: %w", err)
	}
	if v.runner, err = v.executor.opts.StepRunner(); err != nil {
		return fmt.Errorf("starting a step-runner: %w", err)
	}
	v.listener, v.served = newListener(), make(chan struct{})
	go func() {
		defer close(v.served)
		_ = v.runner.Serve(v.listener) // how it ends does not matter once nobody can connect
		v.listener.Close()
	}()
	return nil
}

func (v *environment) Layout() executor.Layout { return v.layout }

func (v *environment) Connect(ctx context.Context) (net.Conn, error) { return v.listener.dial(ctx) }

func (v *environment) Send(ctx context.Context, dir string, in io.Reader) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("files are sent to a folder by its absolute path, not %q", dir)
	}
	return archive.Unpack(ctx, in, dir)
}

func (v *environment) Fetch(ctx context.Context, path string, out io.Writer) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("files are fetched by their absolute path, not %q", path)
	}
	return archive.Pack(ctx, out, path)
}

// Close ends shells and the step-runner, which kills what runs, and removes the job's folder.
func (v *environment) Close(ctx context.Context) error {
	v.closing.Lock()
	defer v.closing.Unlock()
	if v.closed {
		return nil
	}
	v.entering.Lock()
	v.end()
	v.entering.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		v.shells.Wait()
		if v.runner != nil {
			v.listener.Close()
			v.runner.Close()
			<-v.served
		}
	}()
	select {
	case <-over:
	case <-ctx.Done():
		return fmt.Errorf("the job's processes have not ended: %w", context.Cause(ctx))
	}
	if !v.keep {
		if err := removeAll(v.root); err != nil {
			return fmt.Errorf("removing the job's folder: %w", err)
		}
	}
	v.closed = true
	return v.executor.ledger.Done(v.root)
}

// random is part of a name that nobody else has, the same with small letters: some file systems do not tell them apart.
func random() string { return strings.ToLower(rand.Text()[:13]) }
