package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	// callTries and callPause are how often a call of the API server is made, and the longest time between two tries.
	callTries = 5
	callPause = 2 * time.Second
	// quotaPause is after which time it is worth to ask for a pod again that was refused.
	quotaPause = 30 * time.Second
	// watchPause is the time between two attempts to watch the pods.
	watchPause = time.Second
	// endGrace is what the processes of a machine have to end by themselves when the fleet deletes it. 0 would forget the pod before its node has ended it.
	endGrace = time.Second
)

// cloud is a namespace of a cluster.
type cloud struct {
	Options

	settings instancegroup.Settings
	log      instancegroup.Logger
	cluster  *kube.Client
	template corev1.PodTemplateSpec // with a machine container
	doors    *doors                 // nil: machines are reached at the addresses of their pods

	mu     sync.Mutex
	failed map[types.UID]string // why machines have failed
	ending map[string]bool      // the machines that the fleet has deleted
	turns  map[string]*sync.Mutex
}

// In a pod, plugins do not have the variables that say where the API server is, but its files and its name.
const (
	accountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	hostVariable = "KUBERNETES_SERVICE_HOST"
	portVariable = "KUBERNETES_SERVICE_PORT"
	serviceName  = "kubernetes.default.svc"
	servicePort  = "443"
)

// inCluster reports whether this is a pod with a service account.
func inCluster() bool {
	_, err := os.Stat(accountToken)
	return err == nil
}

// Open implements instancegroup.Cloud.
func (c *cloud) Open(ctx context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	c.log, c.settings = log, settings
	c.failed, c.ending, c.turns = map[types.UID]string{}, map[string]bool{}, map[string]*sync.Mutex{}
	inside := c.Kubeconfig == "" && c.Context == "" && inCluster()
	if inside && os.Getenv(hostVariable) == "" {
		if err := os.Setenv(hostVariable, serviceName); err != nil {
			return info, err
		}
		if err := os.Setenv(portVariable, servicePort); err != nil {
			return info, err
		}
	}
	if err := c.complete(inside); err != nil {
		return info, err
	}
	if c.cluster, err = kube.Connect(kube.Access{Kubeconfig: c.Kubeconfig, Context: c.Context}, os.Environ(), callTries, callPause); err != nil {
		return info, wrong(err, "kubeconfig")
	}
	if err := c.checkRights(ctx); err != nil {
		return info, err
	}
	if err := c.tryPods(ctx); err != nil {
		return info, err
	}
	if c.Reach == reachForward {
		if c.doors, err = openDoors(c); err != nil {
			return info, err
		}
	}
	return instancegroup.ProviderInfo{ID: "kubernetes/" + c.cluster.Name + "/" + c.Namespace, MaxSize: c.MaxSize}, nil
}

// tryPods has the cluster look at a pod of each shape, and make none.
func (c *cloud) tryPods(ctx context.Context) error {
	shapes := []*Shape{nil}
	for i := range c.Shapes {
		shapes = append(shapes, &c.Shapes[i])
	}
	if containerOf(&c.template.Spec).Image == "" {
		shapes = shapes[1:]
	}
	for i, shape := range shapes {
		pod, err := c.pod(instancegroup.Order{Name: fmt.Sprintf("try-%d", i)}, shape)
		if err != nil {
			return err
		}
		err = c.cluster.Try(ctx, func(ctx context.Context) error {
			return c.cluster.REST.Post().Namespace(c.Namespace).Resource("pods").Param("dryRun", "All").Body(pod).Do(ctx).Error()
		})
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			if shape != nil {
				return wrong(fmt.Errorf("the cluster takes no pod of the shape %q: %w", shape.Name, err), "shapes")
			}
			return wrong(fmt.Errorf("the cluster takes no pod of the template: %w", err), "template")
		case apierrors.IsForbidden(err): // a quota that is used up now, or what will refuse each pod
			c.log.Warn("the cluster would make no pod now", "error", err)
		case err != nil:
			return c.failure(ctx, "trying to make a pod", err)
		}
	}
	return nil
}

// Offers implements instancegroup.Offerer.
func (c *cloud) Offers(context.Context) ([]instancegroup.Offer, error) { return c.offers(), nil }

// list are the pods of this owner, and the version of the list.
func (c *cloud) list(ctx context.Context) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	err := c.cluster.Try(ctx, func(ctx context.Context) error {
		return c.cluster.REST.Get().Namespace(c.Namespace).Resource("pods").Param("labelSelector", c.selector()).Do(ctx).Into(list)
	})
	return list, c.failure(ctx, "listing the pods", err)
}

func (c *cloud) selector() string { return ownerLabel + "=" + labelValue(c.settings.Owner) }

// Machines implements instancegroup.Cloud.
func (c *cloud) Machines(ctx context.Context) ([]instancegroup.Machine, error) {
	asked := time.Now()
	list, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]instancegroup.Machine, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, c.machineOf(&list.Items[i]))
	}
	c.forget(list, asked)
	return out, nil
}

// forget lets go of machines that are gone, by a list that was asked for at a time.
func (c *cloud) forget(list *corev1.PodList, asked time.Time) {
	names, ids := map[string]bool{}, map[types.UID]bool{}
	for i := range list.Items {
		names[list.Items[i].Name], ids[list.Items[i].UID] = true, true
	}
	c.mu.Lock()
	for id := range c.failed {
		if !ids[id] {
			delete(c.failed, id)
		}
	}
	for name := range c.ending {
		if !names[name] {
			delete(c.ending, name)
			delete(c.turns, name)
		}
	}
	c.mu.Unlock()
	if c.doors != nil {
		c.doors.keep(names, asked)
	}
}

// Create implements instancegroup.Cloud. The name of the pod makes a repeated order the same one.
func (c *cloud) Create(ctx context.Context, order instancegroup.Order) (string, error) {
	shape, err := c.shape(order.Shape, order.Zone, order.Spot)
	if err != nil {
		return "", err
	}
	pod, err := c.pod(order, shape)
	if err != nil {
		return "", err
	}
	if containerOf(&pod.Spec).Image == "" {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: `a machine without a shape needs the option "image"`}
	}
	made, err := c.cluster.CreatePod(ctx, pod)
	if err != nil {
		return "", c.refused(ctx, err)
	}
	return made.Name, nil
}

// Delete implements instancegroup.Cloud.
func (c *cloud) Delete(ctx context.Context, id string) error {
	if err := c.failure(ctx, "deleting a pod", c.cluster.DeletePod(ctx, c.Namespace, id, endGrace)); err != nil {
		return err
	}
	c.mu.Lock()
	c.ending[id] = true
	c.mu.Unlock()
	if c.doors != nil {
		c.doors.close(id)
	}
	return nil
}

// Watch implements instancegroup.Watcher.
func (c *cloud) Watch(ctx context.Context, update func(instancegroup.Instance)) error {
	for ctx.Err() == nil {
		if err := c.watchOnce(ctx, update); err != nil && ctx.Err() == nil {
			c.log.Warn("the pods cannot be watched", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
	return context.Cause(ctx)
}

// watchOnce lists the pods and watches them until the watch ends.
func (c *cloud) watchOnce(ctx context.Context, update func(instancegroup.Instance)) error {
	list, err := c.list(ctx)
	if err != nil {
		return err
	}
	tell := func(pod *corev1.Pod, deleted bool) {
		m := c.machineOf(pod)
		if !instancegroup.Owned(c.settings, m.Labels) {
			return
		}
		m.Request = cmp.Or(m.Request, m.Labels[instancegroup.RequestLabel])
		if deleted {
			m.State = instancegroup.StateDeleted
		}
		update(m.Instance)
	}
	for i := range list.Items {
		tell(&list.Items[i], false)
	}
	watching, err := c.cluster.REST.Get().Namespace(c.Namespace).Resource("pods").Param("watch", "true").Param("labelSelector", c.selector()).
		Param("resourceVersion", list.ResourceVersion).Watch(ctx)
	if err != nil {
		return c.failure(ctx, "watching the pods", err)
	}
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-watching.ResultChan():
			pod, is := event.Object.(*corev1.Pod)
			if !open || !is { // an error, such as a version that is too old
				return nil
			}
			tell(pod, event.Type == watch.Deleted)
		}
	}
}

// Shutdown implements instancegroup.Shutdowner.
func (c *cloud) Shutdown(context.Context) error {
	if c.doors != nil {
		c.doors.shut()
	}
	if c.cluster != nil {
		c.cluster.Close()
	}
	return nil
}
