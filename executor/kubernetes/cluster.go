package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/kube"
)

// Cluster says where an API server is and as whom it is asked. Without Host, a pod of the cluster uses its service account, and others
// their kubeconfig.
type Cluster = kube.Access

// cluster is a client with what jobs need beside pods.
type cluster struct {
	*kube.Client
	pause time.Duration
}

// connect makes a client. Nothing is sent.
func connect(o *Options, env []string) (*cluster, error) {
	client, err := kube.Connect(o.Cluster, env, o.Tries, o.Pause)
	if err != nil {
		return nil, err
	}
	return &cluster{client, o.Pause}, nil
}

// failed explains the error of a call, which may be nil.
func (c *cluster) failed(ctx context.Context, doing string, err error) error {
	var user *executor.UserError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &user):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case noRight(err):
		return fmt.Errorf("%s: the Kubernetes cluster at %s refuses: %w; the rights that are needed are in deploy/kubernetes", doing, c.Name, err)
	case kube.Passing(err):
		return fmt.Errorf("%s: the Kubernetes cluster at %s does not answer: %w", doing, c.Name, err)
	}
	return fmt.Errorf("%s: the Kubernetes cluster at %s: %w", doing, c.Name, err)
}

// noRight reports whether the cluster does not let this program do what it was asked for.
func noRight(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// watchPod watches a pod from a version of it.
func (c *cluster) watchPod(ctx context.Context, namespace, name, version string) (watch.Interface, error) {
	return c.REST.Get().Namespace(namespace).Resource("pods").Param("watch", "true").Param("fieldSelector", "metadata.name="+name).
		Param("resourceVersion", version).Watch(ctx)
}

// events are those of a pod.
func (c *cluster) events(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := c.Try(ctx, func(ctx context.Context) error {
		return c.REST.Get().Namespace(pod.Namespace).Resource("events").Param("fieldSelector", "involvedObject.uid="+string(pod.UID)).Do(ctx).Into(list)
	})
	return list.Items, err
}

// createSecret makes a secret.
func (c *cluster) createSecret(ctx context.Context, secret *corev1.Secret) error {
	err := c.Create(ctx, func(ctx context.Context) error {
		return c.REST.Post().Namespace(secret.Namespace).Resource("secrets").Body(secret).Do(ctx).Error()
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ownSecret has a secret removed by the cluster when its pod is.
func (c *cluster) ownSecret(ctx context.Context, pod *corev1.Pod, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}]}}`, pod.Name, pod.UID)
	return c.Try(ctx, func(ctx context.Context) error {
		return c.REST.Patch(types.MergePatchType).Namespace(pod.Namespace).Resource("secrets").Name(name).Body([]byte(patch)).Do(ctx).Error()
	})
}

// deleteSecret removes a secret. One that is not there is no error.
func (c *cluster) deleteSecret(ctx context.Context, namespace, name string) error {
	err := c.Try(ctx, func(ctx context.Context) error {
		return c.REST.Delete().Namespace(namespace).Resource("secrets").Name(name).Do(ctx).Error()
	})
	if kube.IsGone(err) {
		return nil
	}
	return err
}

// logs are what a container has said, its last lines, or with follow all that it says until it ends.
func (c *cluster) logs(ctx context.Context, pod *corev1.Pod, container string, follow bool, lines int) (io.ReadCloser, error) {
	request := c.REST.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").Param("container", container)
	if follow {
		request.Param("follow", "true")
	} else {
		request.Param("tailLines", strconv.Itoa(lines))
	}
	return request.Stream(ctx)
}
