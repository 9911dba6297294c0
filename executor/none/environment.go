package none

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/event"
)

// Prepare makes the folders of an environment and starts its step-runner.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := executor.Check(e, job); err != nil {
		return nil, err
	}
	if e.opts.Bounds != nil {
		if err := e.opts.Bounds.Admit(job); err != nil {
			return nil, err
		}
	}
	if job.User != "" {
		other, err := e.as(job.User)
		if err != nil {
			return nil, &executor.UserError{Message: err.Error(), Err: err}
		}
		own := *job
		own.User = ""
		return other.Prepare(ctx, &own, report)
	}
	report.Report(event.Preparing{Phase: event.PhaseStarting})
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	env := &environment{executor: e, keep: job.Keep, Life: executor.NewLife()}
	if err := env.prepare(ctx, job); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		env.keep = false
		return nil, errors.Join(err, env.Close(cleanup))
	}
	if e.opts.Ahead && e.prepared.Add(1) > 1 { // most pipelines on this level have one job: it does not pay for a second step-runner
		e.startAhead(1)
	}
	report.Report(event.Preparing{Phase: event.PhaseStarting, Done: true})
	return env, nil
}

// environment is one job's folders and step-runner.
type environment struct {
	executor *Executor
	dirs     folders
	keep     bool
	layout   executor.Layout
	runner   *runner
	marks    usage.Marks // that the job has its kept project

	*executor.Life
	shells sync.WaitGroup

	mu     sync.Mutex // guards the fields below, and that no shell begins when the environment ends
	closed bool
	people bool            // a shell has run, or may have before the environment was recovered: the step-runner does not end what it left
	gone   map[string]bool // folders that Close has removed, also the step-runner's: another job may have their names by now
}

// folders are those of an environment. They are what its handle holds.
type folders struct {
	Runner  string `json:"runner"`
	Root    string `json:"root,omitempty"` // removed in the end; holds all of the job's folders but a kept project
	Busy    string `json:"busy,omitempty"` // of a kept project
	Project string `json:"project"`
	Temp    string `json:"temp"`
	// Bound is the state of what is around the step-runner.
	Bound json.RawMessage `json:"bound,omitempty"`
}

// removed are the folders that go with the environment, besides the runner's.
func (f *folders) removed() []string {
	var out []string
	for _, dir := range []string{f.Root, f.Busy} {
		if dir != "" {
			out = append(out, dir)
		}
	}
	return out
}

func (v *environment) prepare(ctx context.Context, job *executor.Job) (err error) {
	if v.runner, err = v.executor.takeRunner(ctx, job.Slot); err != nil {
		return err
	}
	v.dirs.Runner = v.runner.dir
	if v.runner.bound != nil {
		v.dirs.Bound = v.runner.bound.State()
	}
	v.begin()
	if err := v.makeFolders(ctx, job); err != nil {
		return fmt.Errorf("making the job's folders: %w", err)
	}
	if v.runner.bound != nil {
		return v.runner.bound.Limit(ctx, job, v.dirs.Project)
	}
	return nil
}

// entry is what the ledger holds of a folder of the environment.
func (v *environment) entry(dir string) string { return v.executor.entry(dir, v.runner.bound) }

// begin makes the environment one that lives as long as its step-runner.
func (v *environment) begin() {
	v.layout = executor.Layout{Bin: v.runner.bin(), Shared: v.executor.host.Name() == local.Name}
	go func() {
		<-v.runner.Done()
		v.finish(v.runner.Err())
	}()
}

// finish says why the environment has ended, once. No shell begins afterwards.
func (v *environment) finish(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Finish(why)
}

// makeFolders makes the job's folders, which must not exist.
func (v *environment) makeFolders(ctx context.Context, job *executor.Job) error {
	path, files := v.executor.host.Path(), v.executor.host.Files()
	base, name := job.Root, job.ID
	if base == "" {
		base, name = v.executor.temp, "rung-"+job.ID+"-"+random()
	} else if err := files.MkdirAll(ctx, base, 0o755); err != nil {
		return err
	}
	v.dirs.Root = path.Join(base, name)
	if err := v.claim(ctx, &v.dirs.Root); err != nil {
		return err
	}
	v.dirs.Project = path.Join(v.dirs.Root, job.ProjectName)
	v.dirs.Temp = v.dirs.Project + ".tmp"
	if job.KeepProject != "" {
		if err := v.claimKept(ctx, path.Join(base, job.KeepProject), job.ProjectName); err != nil {
			return err
		}
	} else if err := files.Mkdir(ctx, v.dirs.Project, 0o755); err != nil {
		return err
	}
	v.layout.Project, v.layout.Temp = v.dirs.Project, v.dirs.Temp
	return files.Mkdir(ctx, v.dirs.Temp, 0o700)
}

// claim makes a folder that must not exist, and that is on record before it does. Where that fails, dir becomes empty.
func (v *environment) claim(ctx context.Context, dir *string) error {
	err := v.executor.claim(ctx, *dir, v.entry(*dir))
	if err != nil {
		*dir = ""
	}
	return err
}

func (v *environment) Layout() executor.Layout { return v.layout }

func (v *environment) Handle() executor.Handle {
	dirs := v.dirs
	v.mu.Lock()
	if v.gone[dirs.Root] {
		dirs.Root = ""
	}
	if v.gone[dirs.Busy] {
		dirs.Busy = ""
	}
	v.mu.Unlock()
	state, _ := json.Marshal(dirs) // strings alone cannot fail
	return executor.Handle{Level: v.executor.Level(), Host: v.executor.host.Name(), ID: v.executor.host.Path().Base(v.dirs.Runner), State: state}
}

// Recover takes over the environment of a process that has ended.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	if there, err := e.on(handle.Host); err != nil {
		return nil, err
	} else if there != nil && there != e {
		return there.Recover(ctx, handle)
	}
	if handle.Level != e.Level() || handle.Host != e.host.Name() {
		return nil, fmt.Errorf("the environment %s is one of level %s on the host %s, not of level %s on %s", handle.ID, handle.Level, handle.Host, e.Level(), e.host.Name())
	}
	v := &environment{executor: e, Life: executor.NewLife(), people: true}
	if err := json.Unmarshal(handle.State, &v.dirs); err != nil || v.dirs.Runner == "" || v.dirs.Project == "" || v.dirs.Temp == "" {
		return nil, fmt.Errorf("the handle of the environment %s is damaged", handle.ID)
	}
	bound, err := e.find(v.dirs.Bound)
	if err != nil {
		return nil, fmt.Errorf("the handle of the environment %s is damaged: %w", handle.ID, err)
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	if err := v.expected(ctx); err != nil {
		return nil, err
	}
	v.runner = e.runnerIn(v.dirs.Runner, bound)
	entries := []string{v.entry(v.dirs.Runner)}
	for _, dir := range v.dirs.removed() {
		entries = append(entries, v.entry(dir))
	}
	if err := e.book.Recover(handle.ID, entries...); err != nil {
		return nil, err
	}
	e.claims.add(v.dirs.removed()...)
	conn, err := v.runner.redial()
	if err != nil {
		v.runner.ended("its step-runner is not running any more", err)
		v.begin()
		return nil, errors.Join(v.runner.Err(), v.Close(ctx))
	}
	v.begin()
	v.uses()
	v.layout.Project, v.layout.Temp = v.dirs.Project, v.dirs.Temp
	go v.runner.watch(conn)
	return v, nil
}

// expected is about environments that are on record nowhere. One that was closed has lost its step-runner's folder, whose name does not come again, before
// any other: they may be another job's by now.
func (v *environment) expected(ctx context.Context) error {
	if !v.executor.setup.Lease.Elsewhere {
		return nil
	}
	_, err := v.executor.host.Files().Stat(ctx, v.dirs.Runner)
	if errors.Is(err, fs.ErrNotExist) {
		return &executor.Gone{Reason: "it was removed", Err: err}
	}
	return err
}

// Check connects to the step-runner.
func (v *environment) Check(ctx context.Context) error {
	conn, err := v.Connect(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (v *environment) Connect(ctx context.Context) (net.Conn, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	conn, err := v.executor.host.Dial(ctx, "unix", v.runner.socket)
	if err != nil && v.Err() != nil {
		return nil, v.Err()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &executor.Gone{Reason: "its step-runner does not listen any more", Err: err}
	}
	return conn, err
}

func (v *environment) Send(ctx context.Context, dir string, in io.Reader) error {
	if !v.executor.host.Path().IsAbs(dir) {
		return fmt.Errorf("files are sent to an absolute path, not to %q", dir)
	}
	return v.working(ctx, func(ctx context.Context) error { return v.executor.host.Files().Unpack(ctx, dir, in) })
}

func (v *environment) Fetch(ctx context.Context, path string, out io.Writer) error {
	if !v.executor.host.Path().IsAbs(path) {
		return fmt.Errorf("files are fetched from an absolute path, not from %q", path)
	}
	return v.working(ctx, func(ctx context.Context) error { return v.executor.host.Files().Pack(ctx, path, out) })
}

// working does something that ends with the environment.
func (v *environment) working(ctx context.Context, do func(context.Context) error) error {
	ctx, end := v.Within(ctx)
	defer end()
	err := do(ctx)
	if err != nil && v.Err() != nil {
		return v.Err()
	}
	if err != nil && errors.Is(err, host.ErrLost) && v.executor.host.Err() != nil {
		return &executor.Gone{Reason: "its host is lost", Err: v.executor.host.Err()}
	}
	return err
}

// Detach leaves the environment to a successor.
func (v *environment) Detach() error {
	if !v.executor.setup.Lease.Outlives() {
		return errors.New("the environment ends with this process: its lease does not outlive it")
	}
	for _, dir := range v.left(v.dirs.Runner) {
		if err := v.executor.book.Release(v.entry(dir)); err != nil {
			return err
		}
	}
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.finish(&executor.Gone{Reason: "it was left to another process"})
	return nil
}

// Close ends shells and the step-runner, which kills what runs, kills what shells left, and removes the job's folders.
func (v *environment) Close(ctx context.Context) error {
	v.mu.Lock()
	closed, people := v.closed, v.people
	v.mu.Unlock()
	if closed || v.runner == nil {
		return nil
	}
	v.finish(&executor.Gone{Err: executor.ErrClosed})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := v.awaitShells(ctx); err != nil {
		return err
	}
	clean, err := v.runner.close(ctx)
	if err != nil { // nobody else gets the folders while the step-runner's is there, see expected
		return err
	}
	v.release(v.dirs.Runner)
	problems, remove := []error{}, v.executor.remove
	if clean && !people {
		remove = v.executor.host.Files().RemoveAll
	}
	for _, dir := range v.left() {
		var err error
		if !v.keep || dir == v.dirs.Busy {
			err = remove(ctx, dir)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("removing the job's folder: %w", err))
			continue
		}
		problems = append(problems, v.executor.book.Done(v.entry(dir)))
		v.release(dir)
	}
	err = errors.Join(problems...)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.closed = true
		v.marks.End()
	}
	return err
}

// left are the folders that go with the environment, after those, and are still its own.
func (v *environment) left(dirs ...string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.DeleteFunc(append(dirs, v.dirs.removed()...), func(dir string) bool { return v.gone[dir] })
}

// release lets others have a folder of the environment.
func (v *environment) release(dir string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone == nil {
		v.gone = map[string]bool{}
	}
	v.gone[dir] = true
	v.executor.claims.end(dir)
}

func (v *environment) awaitShells(ctx context.Context) error {
	over := make(chan struct{})
	go func() {
		v.shells.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a shell in the environment has not ended: %w", context.Cause(ctx))
	}
}
