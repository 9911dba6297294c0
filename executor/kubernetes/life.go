package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/internal/kube"
)

const (
	// wordsTime bounds how long is waited for the last words of a pod, and its events.
	wordsTime = 5 * time.Second
	// removePause is the time between two looks at a pod that is being removed.
	removePause = 100 * time.Millisecond
)

// Layout says where things are.
func (v *environment) Layout() executor.Layout { return v.layout }

// watch ends the environment when its pod does, or is about to.
func (v *environment) watch() {
	for {
		pod, gone, changed := v.follower.now()
		if gone == nil {
			gone = ended(pod)
		}
		if gone != nil {
			v.Finish(v.dead(gone))
			return
		}
		select {
		case <-changed:
		case <-v.Done():
			return
		}
	}
}

// dead adds the last words of a pod's container, and its events.
func (v *environment) dead(gone *executor.Gone) *executor.Gone {
	ctx, cancel := context.WithTimeout(v.Lifetime(), wordsTime)
	defer cancel()
	return &executor.Gone{Reason: gone.Reason + v.lastWords(ctx, BuildContainer) + v.events(ctx), Err: gone.Err}
}

// lastWords are what a container has said last, for the end of a message.
func (v *environment) lastWords(ctx context.Context, name string) string {
	stream, err := v.executor.cluster.logs(ctx, v.at, name, false, lastLines)
	if err != nil {
		return "" // the pod may be gone
	}
	defer stream.Close()
	said := &container.Said{}
	_, _ = io.Copy(said, stream)
	return said.LastWords()
}

// copyLogs follows what a container says until it ends. The error says why nothing of it could be read.
func (c *cluster) copyLogs(ctx context.Context, pod *corev1.Pod, name string, to io.Writer) error {
	for wait := kube.FirstPause; ; wait *= 2 { // a node may take a moment until it has the log of a container that has just begun
		stream, err := c.logs(ctx, pod, name, true, 0)
		if err == nil {
			defer stream.Close()
			_, _ = io.Copy(to, stream)
			return nil
		}
		if noRight(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(wait, c.pause)):
		}
	}
}

// state is why the pod cannot run anything: nil where it can.
func (v *environment) state(ctx context.Context) error {
	pod, gone, _ := v.follower.now()
	if gone == nil && !v.follower.fresh() {
		found, err := v.executor.cluster.Pod(ctx, v.at.Namespace, v.at.Name)
		switch {
		case kube.IsGone(err):
			v.follower.saw(nil)
		case err != nil:
			return v.executor.cluster.failed(ctx, "asking for the job's pod", err)
		default:
			v.follower.saw(found)
		}
		pod, gone, _ = v.follower.now()
	}
	if gone == nil {
		gone = ended(pod)
	}
	if gone == nil {
		return nil // not a nil *executor.Gone in an interface
	}
	return gone
}

// Check asks the cluster how the pod is, unless it has just said so.
func (v *environment) Check(ctx context.Context) error {
	if err := v.Err(); err != nil {
		return err
	}
	return v.state(ctx)
}

// explain is the error of a call in the pod, or why the pod is gone.
func (v *environment) explain(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if v.Err() != nil {
		return v.Err()
	}
	if gone := v.state(ctx); errors.Is(gone, executor.ErrGone) {
		return gone
	}
	return v.executor.cluster.failed(ctx, doing, err)
}

// recovery is what a handle holds of an environment.
type recovery struct {
	Namespace string          `json:"namespace"`
	UID       string          `json:"uid"`
	Bound     bool            `json:"bound,omitempty"`
	Layout    executor.Layout `json:"layout"`
}

// Handle identifies the environment.
func (v *environment) Handle() executor.Handle {
	layout := v.layout
	layout.Env = nil // it may hold secrets of the image; the pod knows it
	state, _ := json.Marshal(recovery{v.at.Namespace, string(v.at.UID), v.bound, layout})
	return executor.Handle{Level: v.executor.opts.Level, Host: v.executor.cluster.Name, ID: v.name, State: state}
}

// Recover takes over the pod of a process that has ended.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	if handle.Level != e.opts.Level || handle.Host != e.cluster.Name {
		return nil, fmt.Errorf("the environment %s is one of level %s in %s, not of level %s in %s", handle.ID, handle.Level, handle.Host, e.opts.Level, e.cluster.Name)
	}
	var r recovery
	if err := json.Unmarshal(handle.State, &r); err != nil || r.Namespace == "" || r.UID == "" || handle.ID == "" {
		return nil, fmt.Errorf("the handle of the environment %s is damaged", handle.ID)
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	entry := e.entry(r.Namespace, handle.ID)
	if err := e.book.Recover(handle.ID, entry); err != nil {
		return nil, err
	}
	v := &environment{executor: e, name: handle.ID, bound: r.Bound, layout: r.Layout, Life: executor.NewLife()}
	pod, err := e.cluster.Pod(ctx, r.Namespace, handle.ID)
	switch {
	case kube.IsGone(err) || err == nil && string(pod.UID) != r.UID:
		v.at = &corev1.Pod{}
		v.at.Namespace, v.at.Name = r.Namespace, handle.ID
		return nil, errors.Join(&executor.Gone{Reason: "its pod was removed"}, v.Close(ctx))
	case err != nil:
		return nil, errors.Join(e.cluster.failed(ctx, "asking for the job's pod", err), e.book.Release(entry)) // somebody else may try
	}
	v.at = pod
	v.follower = e.follow(context.WithoutCancel(ctx), pod)
	if gone := ended(pod); gone != nil {
		return nil, errors.Join(v.dead(gone), v.Close(ctx))
	}
	env, err := v.files().Environ(ctx)
	if err != nil {
		v.follower.stop()
		return nil, errors.Join(v.explain(ctx, "asking for the variables of the job's container", err), e.book.Release(entry))
	}
	v.layout.Env = imageEnv(env)
	go v.watch()
	go v.Attend(v.executor.setup.Lease, v.Connect)
	return v, nil
}

// Detach leaves the environment to a successor.
func (v *environment) Detach() error {
	if err := v.executor.book.Release(v.executor.entry(v.at.Namespace, v.name)); err != nil {
		return err
	}
	v.closing.Lock()
	v.closed = true
	v.closing.Unlock()
	v.Finish(&executor.Gone{Reason: "it was left to another process"})
	v.follower.stop()
	return nil
}

// Close removes the pod, and waits until it is gone.
func (v *environment) Close(ctx context.Context) error {
	if v.bound && v.Err() == nil {
		v.removeBuilds(ctx)
	}
	v.Finish(&executor.Gone{Err: executor.ErrClosed})
	v.closing.Lock()
	defer v.closing.Unlock()
	if v.closed {
		return nil
	}
	if v.follower != nil {
		v.follower.stop()
	}
	if limit := v.executor.opts.Removal; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := v.executor.remove(ctx, v.at.Namespace, v.name); err != nil {
		return err
	}
	v.closed = true
	return v.executor.book.Done(v.executor.entry(v.at.Namespace, v.name))
}

// removeBuilds removes the job's folder from a volume that stays.
func (v *environment) removeBuilds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wordsTime)
	defer cancel()
	folder := path.Join(v.executor.opts.Builds, v.name)
	if v.layout.Project != "" {
		folder = path.Dir(v.layout.Project) // the process that made it may have had another configuration
	}
	_ = v.files().RemoveAll(ctx, folder) // what stays is the next operator's to see
}

// remove removes a pod with its logins, and waits until it is gone. One whose node does not answer is not waited for.
func (e *Executor) remove(ctx context.Context, namespace, name string) error {
	const doing = "removing the job's pod"
	if err := e.cluster.deleteSecret(ctx, namespace, name); err != nil {
		return e.cluster.failed(ctx, "removing the job's logins", err)
	}
	if err := e.cluster.DeletePod(ctx, namespace, name, *e.opts.Grace); err != nil {
		return e.cluster.failed(ctx, doing, err)
	}
	for {
		pod, err := e.cluster.Pod(ctx, namespace, name)
		switch {
		case kube.IsGone(err):
			return nil
		case err != nil:
			return e.cluster.failed(ctx, doing, err)
		case kube.NodeLost(pod) || pod.Status.Phase == corev1.PodUnknown:
			return e.cluster.failed(ctx, doing, e.cluster.DeletePod(ctx, namespace, name, 0))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s/%s, which the cluster has been asked for: %w", doing, namespace, name, context.Cause(ctx))
		case <-time.After(removePause):
		}
	}
}
