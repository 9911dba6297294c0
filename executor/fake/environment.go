package fake

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
)

// Environment is one that is only a few structures.
type Environment struct {
	// Job is what it was made for.
	Job      *executor.Job
	executor *Executor
	handle   executor.Handle
	layout   executor.Layout
	*executor.Life

	world *world
	left  bool // guarded by executor.mu
}

// world is what an environment and its heirs have in common.
type world struct {
	name string
	mu   sync.Mutex
	// files are by their absolute paths.
	files map[string]file
	runs  map[string]*Run
	do    func(context.Context, *Run) event.Status
}

type file struct {
	header  tar.Header
	content []byte
}

// newEnvironment makes an environment.
func newEnvironment(e *Executor, name string, job *executor.Job) *Environment {
	v := &Environment{
		Job: job, executor: e, Life: executor.NewLife(),
		handle: executor.Handle{Level: e.Level(), Host: "local", ID: name},
		layout: executor.Layout{Project: "/builds/" + job.ProjectName, Temp: "/builds/" + job.ProjectName + ".tmp", Bin: "/opt/rung/bin"},
		world:  &world{name: name, files: map[string]file{}, runs: map[string]*Run{}, do: e.Run},
	}
	if e.Lie != nil {
		e.Lie(&v.handle, &v.layout)
	}
	return v
}

// heir is the environment as another process has it.
func (v *Environment) heir() *Environment {
	return &Environment{Job: v.Job, executor: v.executor, handle: v.handle, layout: v.layout, Life: executor.NewLife(), world: v.world}
}

// leave ends the environment for its owner, and not for an heir.
func (v *Environment) leave(why string) {
	v.executor.mu.Lock()
	v.left = true
	v.executor.mu.Unlock()
	v.Finish(&executor.Gone{Reason: why})
}

func (v *Environment) isLeft() bool {
	v.executor.mu.Lock()
	defer v.executor.mu.Unlock()
	return v.left
}

// ended reports whether there is nothing to recover. The caller holds executor.mu.
func (v *Environment) ended() bool { return v.Err() != nil && !v.left }

// remove ends what runs in the environment, and forgets it.
func (v *Environment) remove() {
	v.executor.mu.Lock()
	delete(v.executor.envs, v.handle.ID)
	v.executor.mu.Unlock()
	v.world.end()
}

// Layout implements executor.Environment.
func (v *Environment) Layout() executor.Layout { return v.layout }

// Handle implements executor.Environment.
func (v *Environment) Handle() executor.Handle { return v.handle }

// End ends the environment from outside: err is why, a *executor.Gone or nil.
func (v *Environment) End(err error) {
	if !errors.Is(err, executor.ErrGone) {
		err = &executor.Gone{Reason: "the test has ended it", Err: err}
	}
	v.Finish(err)
	v.world.end()
}

// begin is what happens at a call.
func (v *Environment) begin(ctx context.Context, call Call) (context.Context, context.CancelFunc, error) {
	ctx, end := v.Within(ctx)
	err := v.Err()
	if err == nil {
		err = v.executor.do(ctx, call)
	}
	if v.Err() != nil {
		err = v.Err()
	}
	return ctx, end, err
}

// Check implements executor.Environment.
func (v *Environment) Check(ctx context.Context) error {
	_, end, err := v.begin(ctx, Check)
	end()
	return err
}

// Connect implements executor.Environment.
func (v *Environment) Connect(ctx context.Context) (net.Conn, error) {
	_, end, err := v.begin(ctx, Connect)
	defer end()
	if err != nil {
		return nil, err
	}
	return v.executor.server.connect(v.Lifetime(), v.world)
}

// maxFile bounds a file that is sent, in bytes.
const maxFile = 1 << 30

// Send implements executor.Environment. Files are kept in memory.
func (v *Environment) Send(ctx context.Context, dir string, archive io.Reader) error {
	_, end, err := v.begin(ctx, Send)
	defer end()
	if err != nil {
		return err
	}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(r, maxFile))
		if err != nil {
			return err
		}
		if strings.HasPrefix(path.Clean(h.Name), "..") || path.IsAbs(h.Name) {
			return fmt.Errorf("the name %q in the archive leads out of its folder", h.Name)
		}
		v.world.mu.Lock()
		v.world.files[path.Join(dir, h.Name)] = file{*h, content}
		v.world.mu.Unlock()
	}
}

// Fetch implements executor.Environment.
func (v *Environment) Fetch(ctx context.Context, from string, archive io.Writer) error {
	_, end, err := v.begin(ctx, Fetch)
	defer end()
	if err != nil {
		return err
	}
	v.world.mu.Lock()
	defer v.world.mu.Unlock()
	var names []string
	for name := range v.world.files {
		if name == from || strings.HasPrefix(name, strings.TrimSuffix(from, "/")+"/") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return &fs.PathError{Op: "fetch", Path: from, Err: fs.ErrNotExist}
	}
	sort.Strings(names)
	w := tar.NewWriter(archive)
	for _, name := range names {
		f := v.world.files[name]
		f.header.Name = path.Join(path.Base(from), strings.TrimPrefix(name, from))
		if f.header.Typeflag == tar.TypeDir {
			f.header.Name += "/"
		}
		if err := w.WriteHeader(&f.header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// Put leaves a file in the environment, for Fetch.
func (v *Environment) Put(name, text string) { v.world.put(name, text) }

func (w *world) put(name, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[name] = file{tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text)), ModTime: time.Now()}, []byte(text)}
}

// File is the content of a file in the environment, and whether it is there.
func (v *Environment) File(name string) (string, bool) {
	v.world.mu.Lock()
	defer v.world.mu.Unlock()
	f, ok := v.world.files[name]
	return string(f.content), ok
}

// Shell implements executor.Environment: it says back what is typed, and ends with 0.
func (v *Environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	_, end, err := v.begin(ctx, Shell)
	defer end()
	if err != nil {
		return -1, err
	}
	_, err = io.Copy(shell.Stdout, shell.Stdin)
	return 0, err
}

// Detach implements executor.Environment.
func (v *Environment) Detach() error {
	_, end, err := v.begin(context.Background(), Detach)
	end()
	if err != nil {
		return err
	}
	if !v.executor.Lease.Outlives() {
		return errors.New("the environment ends with this process: its lease does not outlive it")
	}
	v.leave("it was left to another process")
	return nil
}

// Close implements executor.Environment.
func (v *Environment) Close(ctx context.Context) error {
	if v.isLeft() {
		return nil
	}
	if err := v.executor.do(ctx, Close); err != nil {
		return err
	}
	v.Finish(&executor.Gone{Err: executor.ErrClosed})
	v.remove()
	return nil
}
