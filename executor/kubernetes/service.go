package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// The health checks of services, where they do not say so themselves, as engines have them.
const (
	healthInterval = 30 * time.Second
	healthTimeout  = 30 * time.Second
	healthRetries  = 3
)

func (v *preparation) serviceContainers() (names []string) {
	for i := range v.job.Services {
		names = append(names, ServicePrefix+strconv.Itoa(i))
	}
	return names
}

// awaitServices waits until the services can be connected to. As with GitLab's runner, one that cannot is reported with its log, and the job goes
// on: it may not need it, or know better how to wait.
func (v *preparation) awaitServices(ctx context.Context) error {
	if v.executor.opts.ServiceWait < 0 {
		return nil
	}
	var wg sync.WaitGroup
	for i, name := range v.serviceContainers() {
		s := &v.job.Services[i]
		port := s.NamedPort(v.job.Variables)
		switch {
		case s.Health != nil:
			wg.Go(func() {
				v.tellOf(ctx, s, name, v.whileRuns(ctx, name, func(ctx context.Context) error { return v.healthy(ctx, s, name) }))
			})
		case port == 0: // what an image exposes is for nodes alone to know
			v.report.Say(event.PhaseServices, s.Name, fmt.Sprintf("service %s names no port (HEALTHCHECK_TCP_PORT), so it is not waited for", s.Name))
			wg.Go(func() { v.tellOf(ctx, s, name, v.hasEnded(name)) })
		default:
			wg.Go(func() {
				v.tellOf(ctx, s, name, v.whileRuns(ctx, name, func(ctx context.Context) error { return v.reach(ctx, port) }))
			})
		}
	}
	wg.Wait()
	return context.Cause(ctx)
}

// tellOf reports why a service does not seem to be ready, if it does not, and what it has said.
func (v *preparation) tellOf(ctx context.Context, s *containers.Service, name string, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	v.report.Say(event.PhaseServices, s.Name, fmt.Sprintf("warning: service %s probably did not start properly: %v", s.Name, err))
	stream, err := v.executor.cluster.logs(ctx, v.at, name, false, lastLines)
	if err != nil {
		v.report.Say(event.PhaseServices, s.Name, fmt.Sprintf("the log of service %s cannot be read: %v", s.Name, err))
		return
	}
	defer stream.Close()
	said := &container.Said{}
	_, _ = io.Copy(said, stream)
	said.ReportService(v.report, s, v.job.Masked)
}

// hasEnded says that a service has ended, if it has.
func (v *preparation) hasEnded(name string) error {
	if s := kube.StatusOf(v.seen().Status.ContainerStatuses, name); s != nil && s.State.Terminated != nil {
		return fmt.Errorf("it ended with code %d", s.State.Terminated.ExitCode)
	}
	return nil
}

// whileRuns waits for something of a service, or for its end.
func (v *preparation) whileRuns(ctx context.Context, name string, what func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	for {
		_, gone, changed := v.follower.now()
		if gone != nil {
			return gone
		}
		if err := v.hasEnded(name); err != nil {
			return err
		}
		select {
		case err := <-done:
			return err
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reach waits until a port can be connected to, from the job's container.
func (v *preparation) reach(ctx context.Context, port uint16) error {
	limit := v.executor.opts.ServiceWait
	var errs bytes.Buffer
	code, err := v.run(ctx, BuildContainer, []string{programFile, "reach", "--timeout", limit.String(), fmt.Sprintf("127.0.0.1:%d", port)}, remotecommand.StreamOptions{Stderr: &errs})
	switch {
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("its port %d cannot be connected to after %s", port, limit)
	}
	return nil
}

// healthy runs the check of a service in its container until it succeeds, or has failed too often. Before its beginning is over failures do not count.
func (v *preparation) healthy(ctx context.Context, s *containers.Service, name string) error {
	h := s.Health
	began := time.Now()
	for failed := 0; ; {
		err := v.check(ctx, name, h)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > h.StartPeriod {
			failed++
		}
		if failed >= cmp.Or(h.Retries, healthRetries) {
			return fmt.Errorf("its health check %q fails", h.Command)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(cmp.Or(h.Interval, healthInterval)):
		}
	}
}

func (v *preparation) check(ctx context.Context, name string, h *containers.Health) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.Timeout, healthTimeout))
	defer cancel()
	code, err := v.run(ctx, name, []string{"sh", "-c", h.Command}, remotecommand.StreamOptions{})
	if err == nil && code != 0 {
		err = errors.New("exit code " + strconv.Itoa(code))
	}
	return err
}
