package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/steps/event"
)

const (
	// startTime bounds how long the step-runner in a container may take until it listens, the image's entrypoint included: an environment
	// that fails does so within 30 seconds.
	startTime = 25 * time.Second
	// settleTime bounds how long the second of its streams may take to say that the step-runner listens, after the first. An
	// entrypoint that has redirected one of them keeps it silent.
	settleTime = time.Second
)

func (v *preparation) platform() *platform {
	p, _ := parsePlatform(v.job.Image.Platform) // it was read before
	return p
}

// run starts the job's container and waits until the step-runner in it listens.
func (v *preparation) run(ctx context.Context) error {
	calling, cancel := making(ctx)
	defer cancel()
	c := v.executor.client
	attached, err := c.Containers.Attach(calling, v.container, v.ownStreams) // as long as the container, or this program
	if err != nil {
		return v.executor.failed(calling, "attaching to the job's container", err)
	}
	v.said = &Said{}
	ready := v.said.Ready()
	// The engine keeps no order between a container's streams: all that the entrypoint said is here once each has told that the step-runner listens.
	out, errs := &Said{}, &Said{}
	settled := []<-chan struct{}{out.Ready(), errs.Ready()}
	v.first = &firstConn{said: io.MultiWriter(v.said, out), input: attached, spent: !v.ownStreams}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer attached.Close()
		v.first.end(engine.Demultiplex(v.first, io.MultiWriter(v.said, errs, v.first.hangUps()), attached))
	}()
	if err := c.Containers.Start(calling, v.container); err != nil {
		attached.Close()
		return v.startError(calling, "the container of image "+v.job.Image.Name, err)
	}
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ready:
		late.Reset(settleTime)
		for _, stream := range settled {
			select {
			case <-stream:
			case <-late.C:
				late.Reset(0) // for the other one, too
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		v.said.ReportEntrypoint(v.report, v.job.Image.Name)
		return nil
	case <-ended:
		return v.endedError(calling)
	case <-late.C:
		return v.notReady(-1, fmt.Sprintf("the step-runner in the job's container did not start within %s", startTime))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startError explains why a container of an image did not start.
func (v *preparation) startError(ctx context.Context, what string, err error) error {
	if !engine.Unreachable(err) && ofImage(err) {
		return &executor.UserError{
			Message: fmt.Sprintf("%s cannot be started: %v", what, err), Hint: "correct its entrypoint, command, user or platform", Err: err,
		}
	}
	return v.executor.failed(ctx, "starting "+what, err)
}

// endedError explains why a container has ended that should have run.
func (v *preparation) endedError(ctx context.Context) error {
	code := -1
	if found, err := v.executor.client.Containers.Inspect(ctx, v.container); err == nil {
		code = found.State.ExitCode
	}
	return v.notReady(code, fmt.Sprintf("the job's container ended with code %d before its step-runner listened", code))
}

// notReady is the error of a container whose step-runner does not listen: most often because of the image's entrypoint, which
// must run the command that it is given. code is that with which the container has ended, -1 if it has not.
func (v *preparation) notReady(code int, what string) error {
	said := v.said.String()
	if said != "" {
		what += "; it said:\n" + said
	}
	entrypoint := v.image.entrypointOf(v.job.Image)
	if entrypoint == nil || ownError(code, said) {
		return errors.New(what)
	}
	return &executor.UserError{
		Message: fmt.Sprintf("image %s: %s", v.job.Image.Name, what),
		Hint:    fmt.Sprintf("the image's entrypoint %q must run the command that it is given; entrypoint: [\"\"] does without it", entrypoint),
	}
}

// ownError reports whether a container has ended with an error of the step-runner's own, so that its entrypoint has run it.
func ownError(code int, said string) bool {
	return code >= event.ExitUsage && code <= event.ExitNotFound && strings.Contains("\n"+said, "\nerror: ")
}
