package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/sandbox/rootfs"
)

// why says why a sandbox has ended whose runsc has.
func (v *environment) why(code int, err error) *executor.Gone {
	if gone := v.at.exceeded(); gone != nil {
		return gone
	}
	reason := fmt.Sprintf("its sandbox ended with exit code %d", code)
	if err != nil {
		reason = fmt.Sprintf("its sandbox ended: %v", err)
	}
	return &executor.Gone{Reason: reason + v.said.LastWords()}
}

// watch ends the environment when a sandbox does that another process has started.
func (v *environment) watch() {
	_, err := v.at.call(v.Lifetime(), "wait", boxID)
	if v.Err() != nil {
		return
	}
	v.Finish(v.why(0, err))
}

// Check asks runsc how the sandbox is.
func (v *environment) Check(ctx context.Context) error {
	if err := v.Err(); err != nil {
		return err
	}
	found, err := v.at.state(ctx)
	switch {
	case v.Err() != nil:
		return v.Err()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return &executor.Gone{Reason: "its sandbox was removed", Err: err}
	case err != nil:
		return err
	case found.Status == "running":
		return nil
	}
	return &executor.Gone{Reason: "its sandbox is " + found.Status}
}

// Layout says where things are.
func (v *environment) Layout() executor.Layout { return v.layout }

// recovery is what a handle holds of an environment.
type recovery struct {
	Layout executor.Layout `json:"layout"`
	User   user            `json:"user"`
}

// Handle identifies the environment.
func (v *environment) Handle() executor.Handle {
	layout := v.layout
	layout.Env = nil // it may hold secrets of the image; what runsc is to run has it
	state, _ := json.Marshal(recovery{layout, v.user})
	return executor.Handle{Level: executor.Sandbox, Host: Host, ID: v.at.dir, State: state}
}

// Recover takes over the environment of a process that has ended.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	if handle.Level != executor.Sandbox || handle.Host != Host {
		return nil, fmt.Errorf("the environment %s is one of level %s on %s, not of level sandbox on this machine", handle.ID, handle.Level, handle.Host)
	}
	var r recovery
	if err := json.Unmarshal(handle.State, &r); err != nil || r.Layout.Project == "" || !filepath.IsAbs(handle.ID) {
		return nil, fmt.Errorf("the handle of the environment %s is damaged", handle.ID)
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	if err := e.book.Recover(handle.ID, entryOf(handle.ID)); err != nil {
		return nil, err
	}
	v := &environment{executor: e, at: e.at(handle.ID), user: r.User, layout: r.Layout, said: &container.Said{}, Life: executor.NewLife()}
	err := v.readEnvironment()
	if err == nil {
		err = v.Check(ctx)
	}
	if errors.Is(err, executor.ErrGone) {
		return nil, errors.Join(err, v.Close(ctx))
	}
	if err != nil {
		v.marks.End()
		return nil, errors.Join(err, e.book.Release(entryOf(handle.ID))) // somebody else may try
	}
	for _, i := range v.layout.Images {
		_, _ = v.uses(&rootfs.Image{ID: i.ID}, "") // one that is gone is so for good
	}
	if said, err := openPipe(v.at.path(saidPipe)); err == nil {
		go v.hear(said, v.said)
	}
	v.hearServices()
	go v.watch()
	go v.Attend(v.executor.setup.Lease, v.Connect)
	return v, nil
}

// readEnvironment reads the image's environment from what runsc was given.
func (v *environment) readEnvironment() error {
	text, err := os.ReadFile(v.at.path("config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &executor.Gone{Reason: "its sandbox was removed", Err: err}
	}
	var s spec
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return fmt.Errorf("reading what the sandbox was made with: %w", err)
	}
	for _, m := range s.Mounts {
		v.usesKept(m.Source)
	}
	v.environs, v.layout.Env = s.Process.Env, imageEnv(s.Process.Env)
	return nil
}

// Detach leaves the environment to a successor.
func (v *environment) Detach() error {
	if err := v.executor.book.Release(entryOf(v.at.dir)); err != nil {
		return err
	}
	v.closing.Lock()
	v.closed = true
	v.closing.Unlock()
	v.Finish(&executor.Gone{Reason: "it was left to another process"})
	return nil
}

// Close kills all that runs in the sandbox and removes it. With Job.Keep, what the job has changed stays in its folder, in the form of
// gVisor's overlay.
func (v *environment) Close(ctx context.Context) error {
	v.Finish(&executor.Gone{Err: executor.ErrClosed})
	v.closing.Lock()
	defer v.closing.Unlock()
	if v.closed {
		return nil
	}
	if v.runsc != nil { // it may be about to make the sandbox, or to remove what is left of it
		if err := v.runsc.Kill(); err != nil {
			return fmt.Errorf("ending the sandbox: %w", err)
		}
		select {
		case <-v.ended:
		case <-ctx.Done():
			return fmt.Errorf("the sandbox has not ended: %w", context.Cause(ctx))
		}
	}
	if err := v.endServices(ctx); err != nil {
		return err
	}
	if err := v.at.remove(ctx); err != nil {
		return err
	}
	if err := v.net.end(ctx); err != nil {
		return err
	}
	if first := v.takeFirst(); first != nil {
		_ = first.Close()
	}
	v.closed = true
	v.marks.End()
	return v.executor.book.Done(entryOf(v.at.dir))
}
