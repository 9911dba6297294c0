package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/sdk/instancegroup"
)

// failure is the error of a call, which may be nil, as the fleet knows it.
func (c *cloud) failure(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	message := fmt.Sprintf("%s: the Kubernetes cluster at %s: %v", doing, c.cluster.Name, err)
	kind := func(kind error) error { return &instancegroup.Error{Kind: kind, Message: message, Err: err} }
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case kube.IsGone(err):
		return kind(instancegroup.ErrNotFound)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return kind(instancegroup.ErrUnauthorised)
	case kube.Passing(err):
		return kind(instancegroup.ErrTransient)
	}
	return fmt.Errorf("%s: the Kubernetes cluster at %s: %w", doing, c.cluster.Name, err)
}

// right is what the plugin does with a resource of the namespace.
type right struct{ verb, resource, subresource string }

// rights are what it needs, in the namespace of the machines alone.
func (c *cloud) rights() []right {
	all := []right{{"create", "pods", ""}, {"list", "pods", ""}, {"watch", "pods", ""}, {"get", "pods", ""}, {"delete", "pods", ""}}
	if !c.settings.UseStaticCredentials || c.Server == serverBrought {
		all = append(all, right{"create", "pods", "exec"}, right{"get", "pods", "exec"})
	}
	if c.Reach == reachForward {
		all = append(all, right{"create", "pods", "portforward"}, right{"get", "pods", "portforward"})
	}
	return all
}

// may asks the cluster whether the plugin has a right.
func (c *cloud) may(ctx context.Context, r right) (bool, error) {
	return c.cluster.May(ctx, c.Namespace, r.verb, r.resource, r.subresource)
}

// checkRights names the first right that is missing.
func (c *cloud) checkRights(ctx context.Context) error {
	for _, r := range c.rights() {
		allowed, err := c.may(ctx, r)
		if err != nil {
			return c.failure(ctx, "asking for the plugin's rights", err)
		}
		if !allowed {
			what := r.resource
			if r.subresource != "" {
				what += "/" + r.subresource
			}
			return &instancegroup.Error{Kind: instancegroup.ErrUnauthorised, Message: fmt.Sprintf(
				"the Kubernetes cluster at %s does not let it %s %s in the namespace %s: give it the rights that the plugin's README lists", c.cluster.Name, r.verb, what, c.Namespace)}
		}
	}
	return nil
}

// refused is the error of a pod that was not made. What may make pods and is refused one has met an admission: a quota of the namespace, most often. The cluster does not say which.
func (c *cloud) refused(ctx context.Context, err error) error {
	if !apierrors.IsForbidden(err) {
		return c.failure(ctx, "making a pod", err)
	}
	if allowed, asked := c.may(ctx, right{"create", "pods", ""}); asked != nil || !allowed {
		return c.failure(ctx, "making a pod", err)
	}
	return &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("the Kubernetes cluster at %s: %v", c.cluster.Name, err), After: quotaPause, Err: err}
}
