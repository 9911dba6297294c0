package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/kube"
)

const (
	// DefaultLook is how often a pod is asked for, beside being watched: its end is noticed within 10 seconds, whatever becomes of a connection.
	DefaultLook = 8 * time.Second
	// lostAfter is how long an API server may not answer until the environments behind it count as gone.
	lostAfter = 15 * time.Second
	// nodeLostAfter is how long a node may not answer, as the cluster sees it, until the environments on it count as gone.
	nodeLostAfter = 20 * time.Second
	// followPause is the time between two attempts to reach it.
	followPause = 500 * time.Millisecond
)

// follower knows how a pod is.
type follower struct {
	cluster *cluster
	look    time.Duration
	stop    context.CancelFunc
	wait    time.Duration // nodeLostAfter

	mu      sync.Mutex
	pod     *corev1.Pod // as it was seen last
	seen    time.Time
	end     *executor.Gone // it is not there any more, or cannot be seen
	lost    time.Time      // since when nobody answers; zero if somebody does
	node    *time.Timer    // runs while the node of the pod does not answer; nil if it does
	changed chan struct{}  // closed with the next change
}

// follow watches a pod until ctx ends, or stop is called.
func (e *Executor) follow(ctx context.Context, pod *corev1.Pod) *follower {
	f := &follower{cluster: e.cluster, look: e.opts.Look, wait: nodeLostAfter, pod: pod, seen: time.Now(), changed: make(chan struct{})}
	ctx, f.stop = context.WithCancel(ctx)
	f.watchNode()
	go f.run(ctx)
	return f
}

// watchNode sees whether the node of the pod answers. One that does not for a moment, as while its network or its kubelet is restarted, still has the pod.
func (f *follower) watchNode() {
	switch lost := f.end == nil && kube.NodeLost(f.pod); {
	case lost && f.node == nil:
		f.node = time.AfterFunc(f.wait, f.nodeGone)
	case !lost && f.node != nil:
		f.node.Stop()
		f.node = nil
	}
}

// nodeGone takes that the node has not answered for long.
func (f *follower) nodeGone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end == nil && f.node != nil {
		f.finish(&executor.Gone{Reason: fmt.Sprintf("the node of its pod, %s, has stopped answering", f.pod.Spec.NodeName)})
	}
}

// finish takes that the pod is gone.
func (f *follower) finish(gone *executor.Gone) {
	f.end = gone
	close(f.changed)
	f.changed = make(chan struct{})
}

// now is the pod as it was seen last, or why it is gone, and what is closed when that changes.
func (f *follower) now() (*corev1.Pod, *executor.Gone, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pod, f.end, f.changed
}

// fresh reports whether the pod has been seen of late.
func (f *follower) fresh() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end != nil || time.Since(f.seen) < f.look
}

// saw takes a pod, which may be another of its name, or nil for none.
func (f *follower) saw(pod *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		return
	}
	f.seen, f.lost = time.Now(), time.Time{}
	switch {
	case pod == nil || pod.UID != f.pod.UID:
		why := "its pod was deleted"
		if gone := ended(f.pod); gone != nil { // as was known before
			why = gone.Reason
		}
		f.finish(&executor.Gone{Reason: why})
		return
	case pod.ResourceVersion == f.pod.ResourceVersion:
		return
	default:
		f.pod = pod
		f.watchNode()
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// missed takes an error of the API server.
func (f *follower) missed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost.IsZero() {
		f.lost = time.Now()
	}
	if f.end == nil && time.Since(f.lost) > lostAfter {
		reason := fmt.Sprintf("the Kubernetes cluster at %s has stopped answering", f.cluster.Name)
		if noRight(err) {
			reason = fmt.Sprintf("the Kubernetes cluster at %s does not let this program see its pod any more, as when a token has expired or a right was taken", f.cluster.Name)
		}
		f.finish(&executor.Gone{Reason: reason, Err: err})
	}
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if f.ask(ctx) {
			f.watch(ctx)
		}
		if _, gone, _ := f.now(); gone != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
}

// ask looks at the pod once, and reports whether it is there.
func (f *follower) ask(ctx context.Context) bool {
	pod, _, _ := f.now()
	found, err := f.cluster.Pod(ctx, pod.Namespace, pod.Name)
	switch {
	case kube.IsGone(err):
		f.saw(nil)
		return false
	case err != nil:
		f.missed(err)
		return false
	}
	f.saw(found)
	return true
}

// watch sees what becomes of the pod until the watch ends, or what it says is not what the pod is.
func (f *follower) watch(ctx context.Context) {
	pod, _, _ := f.now()
	watching, err := f.cluster.watchPod(ctx, pod.Namespace, pod.Name, pod.ResourceVersion)
	if err != nil {
		f.missed(err)
		return
	}
	defer watching.Stop()
	tick := time.NewTicker(f.look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !f.ask(ctx) {
				return
			}
		case event, open := <-watching.ResultChan():
			found, is := event.Object.(*corev1.Pod)
			switch {
			case !open || !is: // an error, such as a version that is too old
				return
			case event.Type == watch.Deleted:
				f.saw(found)
				f.saw(nil)
				return
			}
			f.saw(found)
		}
	}
}
