// Package forged is an isolation level for tests, whose environments lie: the step-runner in them runs nothing, and reports and leaves
// behind what the test says. An image with another program in place of step-runner can do the same.
package forged

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// Folders of an environment.
const (
	Project = "/builds/project"
	Temp    = "/builds/project.tmp"
)

// Level makes environments that lie. It says that it is the level of containers.
type Level struct {
	// Dir is a folder that takes the files of environments.
	Dir string
	// Run is called in the place of the steps, and returns what is reported of them. RunStarted and RunFinished may be left out: the
	// run then succeeds.
	Run func(env *Environment) []event.Event
	// Fetch answers in the place of the environment, if it is not nil.
	Fetch func(ctx context.Context, path string, archive io.Writer) error

	mu   sync.Mutex
	jobs []*executor.Job
}

// Jobs are those that environments were made for.
func (l *Level) Jobs() []*executor.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jobs
}

// Level implements executor.Executor.
func (*Level) Level() executor.Level { return executor.Container }

// Capabilities implements executor.Executor.
func (*Level) Capabilities() executor.Capabilities {
	return executor.Capabilities{Image: true, Services: true}
}

// Recover implements executor.Executor: nothing is found again.
func (*Level) Recover(context.Context, executor.Handle) (executor.Environment, error) {
	return nil, executor.ErrGone
}

// Sweep implements executor.Executor.
func (*Level) Sweep(context.Context) error { return nil }

// Close implements executor.Executor.
func (*Level) Close() error { return nil }

// Prepare implements executor.Executor.
func (l *Level) Prepare(_ context.Context, job *executor.Job, _ executor.Reporter) (executor.Environment, error) {
	l.mu.Lock()
	l.jobs = append(l.jobs, job)
	l.mu.Unlock()
	e := &Environment{level: l, id: job.ID, root: filepath.Join(l.Dir, job.ID), Life: executor.NewLife()}
	for _, dir := range []string{Project, Temp} {
		if err := os.MkdirAll(e.Path(dir), 0o755); err != nil {
			return nil, err
		}
	}
	e.server = NewServer(func(run string, tell func(event.Event) error) error {
		return Tell(run, l.Run(e), tell)
	})
	return e, nil
}

// Environment is a folder that stands for a file system.
type Environment struct {
	level  *Level
	id     string
	root   string
	server *grpc.Server
	*executor.Life
}

// Path is where a path of the environment is on this machine.
func (e *Environment) Path(path string) string {
	return filepath.Join(e.root, filepath.FromSlash(path))
}

// Write writes a file, with its folders.
func (e *Environment) Write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(e.Path(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(e.Path(path), []byte(text), 0o644)
}

// Layout implements executor.Environment.
func (*Environment) Layout() executor.Layout { return executor.Layout{Project: Project, Temp: Temp} }

// Handle implements executor.Environment.
func (e *Environment) Handle() executor.Handle {
	return executor.Handle{Level: executor.Container, ID: e.id}
}

// Check implements executor.Environment.
func (e *Environment) Check(context.Context) error { return e.Err() }

// Connect implements executor.Environment.
func (e *Environment) Connect(context.Context) (net.Conn, error) {
	if err := e.Err(); err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	go func() { _ = e.server.Serve(&one{conn: there, done: e.Done()}) }()
	return here, nil
}

// Send implements executor.Environment.
func (e *Environment) Send(ctx context.Context, dir string, in io.Reader) error {
	return archive.Unpack(ctx, in, e.Path(dir))
}

// Fetch implements executor.Environment.
func (e *Environment) Fetch(ctx context.Context, path string, out io.Writer) error {
	if e.level.Fetch != nil {
		return e.level.Fetch(ctx, path, out)
	}
	return archive.Pack(ctx, out, e.Path(path))
}

// Shell implements executor.Environment.
func (*Environment) Shell(context.Context, *executor.Shell) (int, error) { return 0, nil }

// Detach implements executor.Environment.
func (*Environment) Detach() error { return executor.ErrGone }

// Close implements executor.Environment.
func (e *Environment) Close(context.Context) error {
	e.Finish(&executor.Gone{Err: executor.ErrClosed})
	e.server.Stop()
	return nil
}

// one is a listener that has one connection.
type one struct {
	mu   sync.Mutex
	conn net.Conn
	done <-chan struct{}
}

// Accept implements net.Listener.
func (l *one) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *one) Close() error { return nil }

// Addr implements net.Listener.
func (l *one) Addr() net.Addr { return &net.UnixAddr{Name: "forged", Net: "unix"} }

// Step are the events of a step that refers to a component, and that succeeded.
func Step(id string, of Claim) []event.Event {
	return []event.Event{
		{Step: id, Body: event.StepStarted{Name: of.Name, Ref: of.Ref}},
		{Step: id, Body: event.StepInputs{Inputs: of.Inputs}},
		{Step: id, Body: event.StepFinished{Status: event.Success, Outputs: of.Outputs}},
	}
}

// Claim is what a step is said to be.
type Claim struct {
	Name, Ref       string
	Inputs, Outputs map[string]value.Value
}

// Texts are the inputs or outputs of a claim: names and texts in turn.
func Texts(pairs ...string) map[string]value.Value {
	out := map[string]value.Value{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = value.OfString(pairs[i+1])
	}
	return out
}
