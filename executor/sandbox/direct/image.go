package direct

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/login"
	"github.com/rungci/rung/executor/sandbox/rootfs"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

// reportEvery is how often a long pull is reported.
const reportEvery = 3 * time.Second

// findTries is how often an image is looked for that another process removes at the same time.
const findTries = 3

// findImage gets the files of the job's image.
func (v *preparation) findImage(ctx context.Context) error {
	i := v.job.Image
	if i == nil {
		root := v.executor.opts.Root
		if root == "" {
			return &executor.UserError{Message: "the job names no image, and it is to run in a sandbox", Hint: "write image: NAME, or run it without isolation"}
		}
		v.image = &rootfs.Image{Root: root}
		return rootfs.Furnish(root)
	}
	found, err := v.find(ctx, i)
	v.image = found
	return err
}

// find gets the files of an image, by the first of its pull policies that works.
func (v *preparation) find(ctx context.Context, i *containers.Image) (*rootfs.Image, error) {
	policies := i.PullPolicies
	if len(policies) == 0 {
		policies = v.executor.setup.PullPolicies
	}
	if len(policies) == 0 {
		policies = []string{container.IfNotPresent}
	}
	for range findTries {
		found, err := container.TryPolicies(ctx, v.report, i.Name, policies, func(policy string) (*rootfs.Image, error) { return v.byPolicy(ctx, i, policy) })
		if err != nil {
			return nil, err
		}
		if here, err := v.uses(found, i.Name); here || err != nil {
			return found, err
		}
	}
	return nil, fmt.Errorf("the files of the image %s were removed each time that they were found", i.Name)
}

func (v *preparation) byPolicy(ctx context.Context, i *containers.Image, policy string) (*rootfs.Image, error) {
	request := rootfs.Request{Name: i.Name, Platform: i.Platform}
	switch policy {
	case container.Always:
		return v.pull(ctx, request)
	case container.IfNotPresent, container.Never:
	default:
		return nil, &executor.UserError{Message: fmt.Sprintf("image %s: %q is not a pull policy", i.Name, policy), Hint: "they are always, if-not-present and never"}
	}
	found, err := v.executor.store.Find(ctx, request)
	switch {
	case found != nil || err != nil:
		return found, err
	case policy == container.Never:
		return nil, &executor.UserError{
			Message: fmt.Sprintf("the image %s is not on this machine, and the pull policy is never", i.Name),
			Hint:    "save it to the folder that " + savedVariable + " names, or allow the pull policy if-not-present",
		}
	}
	return v.pull(ctx, request)
}

// pull fetches the image from its registry.
func (v *preparation) pull(ctx context.Context, request rootfs.Request) (*rootfs.Image, error) {
	setup := v.executor.setup
	found, err := login.Find(ctx, v.job, setup.Env, getenv(setup.Env, "HOME"), request.Name)
	if err != nil {
		v.report.Say(event.PhasePulling, request.Name, fmt.Sprintf("credentials for image %s: %v", request.Name, err))
	}
	started := event.Preparing{Phase: event.PhasePulling, Subject: request.Name}
	if found != nil {
		request.Username, request.Password = found.Username, found.Password
		started.Message = fmt.Sprintf("pulling image %s with credentials of %s", request.Name, found.From)
	}
	v.report.Report(started)
	var have int64
	told := time.Now()
	image, err := v.executor.store.Pull(ctx, request, func(current, total int64) {
		if have = current; time.Since(told) >= reportEvery {
			told = time.Now()
			v.report.Report(event.Preparing{Phase: event.PhasePulling, Subject: request.Name, Current: current, Total: total, Unit: event.UnitBytes})
		}
	})
	if err != nil {
		return nil, pullError(ctx, request.Name, err)
	}
	v.report.Report(event.Preparing{Phase: event.PhasePulling, Subject: request.Name, Current: have, Unit: event.UnitBytes, Done: true})
	return image, nil
}

// pullError says whose mistake it is that an image cannot be had.
func pullError(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var missing *source.NotFoundError
	var denied *source.DeniedError
	pull := &executor.PullError{Image: name, Err: err}
	switch {
	case errors.As(err, &missing):
		return &executor.UserError{Message: fmt.Sprintf("image %s cannot be pulled: %v", name, err), Hint: "correct its name, or name a platform that it is made for", Err: pull}
	case errors.As(err, &denied):
		hint := denied.Hint
		if hint == "" {
			hint = "correct its name"
		}
		return &executor.UserError{Message: fmt.Sprintf("image %s cannot be pulled: %v", name, strings.TrimSpace(err.Error())), Hint: hint, Err: pull}
	}
	return fmt.Errorf("pulling image %s: %w", name, pull)
}
