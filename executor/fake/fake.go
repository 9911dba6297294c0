// Package fake is an executor for tests of whoever uses executors: every call can be delayed, hang, refuse, die or lie, and what steps do is a
// function of the test. An environment is a few structures in memory, and all of an executor share one server, so that a thousand of them
// are cheap.
//
//	e := &fake.Executor{
//		At:  map[fake.Call]fake.Act{fake.Prepare: fake.Delay(time.Second), fake.Close: fake.Fail(errors.New("stuck"))},
//		Run: func(ctx context.Context, r *fake.Run) event.Status { r.Log("hello\n"); <-ctx.Done(); return event.Success },
//	}
package fake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
)

// Call is a call of the contract.
type Call string

// The calls. Close is that of an environment, CloseExecutor that of the executor.
const (
	Prepare       Call = "Prepare"
	Recover       Call = "Recover"
	Sweep         Call = "Sweep"
	CloseExecutor Call = "CloseExecutor"
	Check         Call = "Check"
	Connect       Call = "Connect"
	Send          Call = "Send"
	Fetch         Call = "Fetch"
	Shell         Call = "Shell"
	Detach        Call = "Detach"
	Close         Call = "Close"
)

// Calls are all of them.
var Calls = []Call{Prepare, Recover, Sweep, CloseExecutor, Check, Connect, Send, Fetch, Shell, Detach, Close}

// Act is what happens when a call begins. The call goes on if it returns nil.
type Act func(ctx context.Context) error

// Fail lets a call fail.
func Fail(err error) Act { return func(context.Context) error { return err } }

// Delay lets a call take longer.
func Delay(d time.Duration) Act {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Hang lets a call wait until its context ends.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Stick lets a call hang whatever its context says.
func Stick(context.Context) error { select {} }

// Panic lets a call panic.
func Panic(context.Context) error { panic("the fake executor was told to panic") }

// Die ends the program, as a bug of a plugin can.
func Die(context.Context) error {
	os.Exit(exitCode)
	return nil
}

// exitCode is that of a program which Die has ended.
const exitCode = 3

// Nth acts at the n-th call only, counted from 1.
func Nth(n int, act Act) Act {
	var mu sync.Mutex
	count := 0
	return func(ctx context.Context) error {
		mu.Lock()
		count++
		now := count == n
		mu.Unlock()
		if now {
			return act(ctx)
		}
		return nil
	}
}

// Executor makes environments that are not there. Its fields must not change once it is used. The zero Executor runs jobs that succeed at once.
type Executor struct {
	// Name is the level that it says it is; empty is "fake".
	Name executor.Level
	// Can is what it says that it can do; nil is everything.
	Can *executor.Capabilities
	// At says what happens at calls.
	At map[Call]Act
	// Run is what steps do; nil succeeds at once. When ctx ends, somebody has stopped the run; the cause is an event.Stop.
	Run func(ctx context.Context, run *Run) event.Status
	// Reports are what Prepare reports.
	Reports []event.Preparing
	// Lie changes what is said of an environment.
	Lie func(*executor.Handle, *executor.Layout)
	// Lease is that of the environments.
	Lease executor.Lease

	once   sync.Once
	server *server

	mu   sync.Mutex
	envs map[string]*Environment // that were not closed
	jobs []*executor.Job
	made int
}

// do is what happens at a call.
func (e *Executor) do(ctx context.Context, call Call) error {
	if act := e.At[call]; act != nil {
		return act(ctx)
	}
	return nil
}

// Jobs are those that environments were asked for.
func (e *Executor) Jobs() []*executor.Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*executor.Job(nil), e.jobs...)
}

// Environments are those that were prepared and not closed, also the detached ones.
func (e *Executor) Environments() (out []*Environment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, env := range e.envs {
		out = append(out, env)
	}
	return out
}

// Level implements executor.Executor.
func (e *Executor) Level() executor.Level {
	if e.Name == "" {
		return "fake"
	}
	return e.Name
}

// Capabilities implements executor.Executor.
func (e *Executor) Capabilities() executor.Capabilities {
	if e.Can != nil {
		return *e.Can
	}
	return executor.Capabilities{
		Image: true, Services: true, Networks: []executor.NetworkPolicy{executor.NetworkNone, executor.NetworkPublic}, Resources: true, Disk: true, IO: true, Slots: true, Privileges: true, User: true,
		KeepProject: true, Reattach: true,
	}
}

// Prepare implements executor.Executor.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx), executor.Check(e, job)); err != nil {
		return nil, err
	}
	e.once.Do(func() { e.server = newServer() })
	e.mu.Lock()
	e.jobs = append(e.jobs, job)
	e.mu.Unlock()
	for _, r := range e.Reports {
		report.Report(r)
	}
	if err := e.do(ctx, Prepare); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made++
	env := newEnvironment(e, fmt.Sprintf("%s-%d", job.ID, e.made), job)
	if e.envs == nil {
		e.envs = map[string]*Environment{}
	}
	e.envs[env.handle.ID] = env
	return env, nil
}

// Recover implements executor.Executor: it finds environments that were detached, or whose owner was said to be dead.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	if err := e.do(ctx, Recover); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	env := e.envs[handle.ID]
	switch {
	case env == nil || env.ended():
		return nil, &executor.Gone{Reason: "it was closed, or never there"}
	case !env.left:
		return nil, fmt.Errorf("%w: %s", executor.ErrOwned, handle.ID)
	}
	heir := env.heir()
	e.envs[handle.ID] = heir
	return heir, nil
}

// Abandon makes every environment one whose owner is dead: they can be recovered, and a sweep removes them if their lease has no owner.
func (e *Executor) Abandon() {
	for _, env := range e.Environments() {
		env.leave("its owner has ended")
	}
}

// Sweep implements executor.Executor.
func (e *Executor) Sweep(ctx context.Context) error {
	if err := e.do(ctx, Sweep); err != nil {
		return err
	}
	if e.Lease.Outlives() {
		return nil
	}
	for _, env := range e.Environments() {
		if env.isLeft() {
			env.remove()
		}
	}
	return nil
}

// Close implements executor.Executor.
func (e *Executor) Close() error {
	if err := e.do(context.Background(), CloseExecutor); err != nil {
		return err
	}
	e.once.Do(func() {})
	if e.server != nil {
		e.server.stop()
	}
	return nil
}
