package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
)

const (
	// engineLost is how long an engine may not answer until the environments in it count as gone. Engines that are restarted
	// without their containers ("live restore") are back by then.
	engineLost = 15 * time.Second
	// enginePause is the time between two attempts to reach an engine.
	enginePause = time.Second
)

// watch ends the environment when its container does not run any more.
func (v *environment) watch() {
	var since time.Time // that the engine does not answer
	for ended := v.Lifetime(); ended.Err() == nil; {
		_, err := v.executor.client.Containers.Wait(ended, v.container)
		if ended.Err() != nil {
			return
		}
		if err == nil || engine.Status(err) == http.StatusNotFound {
			ctx, cancel := context.WithTimeout(ended, engineLost)
			v.Finish(v.why(ctx))
			cancel()
			return
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > engineLost {
			v.Finish(&executor.Gone{Reason: fmt.Sprintf("the container engine at %s has stopped answering", v.executor.engine), Err: err})
			return
		}
		if v.executor.client.Ping(ended) == nil {
			since = time.Time{}
		}
		select {
		case <-ended.Done():
		case <-time.After(enginePause):
		}
	}
}

// why says what has become of a container that has ended.
func (v *environment) why(ctx context.Context) *executor.Gone {
	err := v.state(ctx)
	if gone := (*executor.Gone)(nil); errors.As(err, &gone) {
		return gone
	}
	return &executor.Gone{Reason: "its container ended", Err: err}
}

// state is why the job's container cannot run anything: nil where it can.
func (v *environment) state(ctx context.Context) error {
	found, err := v.executor.client.Containers.Inspect(ctx, v.container)
	switch {
	case engine.Status(err) == http.StatusNotFound:
		return v.dead("its container was removed", err)
	case err != nil && engine.Unreachable(err):
		return &executor.Gone{Reason: fmt.Sprintf("the container engine at %s has stopped answering", v.executor.engine), Err: err}
	case err != nil:
		return v.executor.unreachable(ctx, err)
	case found.State.Paused:
		return v.dead("its container is paused", nil)
	case found.State.Running:
		return nil
	case found.State.OOMKilled:
		return v.dead(fmt.Sprintf("its container ran out of memory and was killed (exit code %d)", found.State.ExitCode), executor.ErrOutOfMemory)
	}
	reason := fmt.Sprintf("its container ended with exit code %d", found.State.ExitCode)
	if found.State.ExitCode == 0 { // a step-runner that was asked to end
		reason = "its container was stopped, by somebody or with its engine"
	}
	if found.State.Error != "" {
		reason += ": " + found.State.Error
	}
	return v.dead(reason, nil)
}

// dead is an environment whose container has ended, with its last words.
func (v *environment) dead(reason string, err error) error {
	return &executor.Gone{Reason: reason + v.said.LastWords(), Err: err}
}

// whyGone is the error of a call that failed because the container does not run.
func (v *environment) whyGone(ctx context.Context, err error) error {
	if gone := v.state(ctx); gone != nil {
		return gone
	}
	return v.executor.unreachable(ctx, err)
}

// Check asks the engine how the job's container is.
func (v *environment) Check(ctx context.Context) error {
	if err := v.Err(); err != nil {
		return err
	}
	return v.state(ctx)
}

// recovery is what a handle holds of an environment.
type recovery struct {
	Container string          `json:"container"`
	Layout    executor.Layout `json:"layout"`
	Owner     [2]int          `json:"owner"` // the job's user and group
}

// Handle identifies the environment.
func (v *environment) Handle() executor.Handle {
	layout := v.layout
	layout.Env = nil // it may hold secrets of the image; the engine knows it
	state, _ := json.Marshal(recovery{Container: v.container, Layout: layout, Owner: [2]int{v.owner.uid, v.owner.gid}})
	return executor.Handle{Level: v.executor.opts.Level, Host: v.executor.engine.Host, ID: v.name, State: state}
}

// Recover takes over the environment of a process that has ended.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	if handle.Level != e.opts.Level || handle.Host != e.engine.Host {
		return nil, fmt.Errorf("the environment %s is one of level %s in %s, not of level %s in %s", handle.ID, handle.Level, handle.Host, e.opts.Level, e.engine.Host)
	}
	var r recovery
	if err := json.Unmarshal(handle.State, &r); err != nil || r.Container == "" || handle.ID == "" {
		return nil, fmt.Errorf("the handle of the environment %s is damaged", handle.ID)
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	if err := e.book.Recover(handle.ID, e.entry(handle.ID)); err != nil {
		return nil, err
	}
	v := &environment{
		executor: e, job: &executor.Job{}, name: handle.ID, container: r.Container, layout: r.Layout, found: r.Layout.Images,
		owner: owner{r.Owner[0], r.Owner[1]}, said: &Said{}, Life: executor.NewLife(),
	}
	err := v.state(ctx)
	if err == nil {
		v.layout.Env, err = v.environ(ctx)
	}
	if errors.Is(err, executor.ErrGone) {
		return nil, errors.Join(err, v.Close(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, e.book.Release(e.entry(v.name))) // somebody else may try
	}
	for _, i := range v.found {
		v.marks.Add(e.setup.Uses.Use(e.key(executor.StoredImage, i.ID)))
	}
	go v.watch()
	go v.Attend(v.executor.setup.Lease, v.connect)
	return v, nil
}

// environ is what steps get of the image's environment, as the container has it.
func (v *environment) environ(ctx context.Context) (map[string]string, error) {
	found, err := v.executor.client.Containers.Inspect(ctx, v.container)
	if err != nil {
		return nil, v.executor.unreachable(ctx, err)
	}
	return imageEnv(found.Config.Env), nil
}

// Detach leaves the environment to a successor.
func (v *environment) Detach() error {
	if err := v.executor.book.Release(v.executor.entry(v.name)); err != nil {
		return err
	}
	v.closing.Lock()
	v.closed = true
	v.closing.Unlock()
	v.Finish(&executor.Gone{Reason: "it was left to another process"})
	return nil
}

// Close kills and removes the job's containers, network and volume.
func (v *environment) Close(ctx context.Context) error {
	v.Finish(&executor.Gone{Err: executor.ErrClosed})
	v.closing.Lock()
	defer v.closing.Unlock()
	if v.closed {
		return nil
	}
	defer v.marks.End() // what cannot be removed of it keeps its images and volumes
	how := removal{}
	if v.job.Keep && !v.discard {
		how.keep = v.container
	} else {
		v.removeBuilds(ctx)
	}
	if err := v.executor.remove(ctx, v.name, how); err != nil {
		return err
	}
	v.closed = true
	return v.executor.book.Done(v.executor.entry(v.name))
}
