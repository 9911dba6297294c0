package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/steps/containers"
)

const (
	// loopback is the address on this machine that leads to services. Nobody else can reach it.
	loopback = "127.0.0.1"
	// lookAgain is the time between two looks at a service that is not ready.
	lookAgain = 200 * time.Millisecond
	// listens is how long a connection must hold for its service to be ready: the engine itself takes connections, and drops them.
	listens = 100 * time.Millisecond
)

// StartServices implements executor.ServiceStarter: the services have a network of their own, and their ports lead to this machine's
// loopback address.
func (e *Executor) StartServices(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Services, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if e.engine.owns {
		return nil, fmt.Errorf("the services of a job on this machine cannot be reached in the engine at %s; use an engine on this machine, or run the job in a container, too", e.engine)
	}
	alone := *job
	alone.Image = nil
	ports := make([]map[uint16]uint16, len(job.Services))
	env, err := e.open(ctx, &alone, report, func(p *preparation, ctx context.Context) error {
		v := &companions{p}
		services, err := v.pullAll(ctx)
		if err == nil {
			err = v.makeNetwork(ctx)
		}
		if err == nil {
			err = v.startServices(ctx, services)
		}
		if err == nil {
			err = v.awaitServices(ctx, services)
		}
		for i, s := range services {
			if err == nil {
				ports[i], err = v.portsOf(ctx, s)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &services{env, ports}, nil
}

// services implements executor.Services.
type services struct {
	*environment
	ports []map[uint16]uint16
}

// Ports implements executor.Services.
func (s *services) Ports(service int) map[uint16]uint16 { return s.ports[service] }

// Images implements executor.Services.
func (s *services) Images() []executor.FoundImage { return s.found }

var _ executor.ServiceStarter = (*Executor)(nil)

func tcp(port uint16) string { return strconv.Itoa(int(port)) + "/tcp" }

// exposed are the ports of a service that are published.
func exposed(s *containers.Service) map[string]struct{} {
	var out map[string]struct{}
	for port := range s.Ports {
		if out == nil {
			out = map[string]struct{}{}
		}
		out[tcp(port)] = struct{}{}
	}
	return out
}

// published adds the addresses that lead to a service.
func published(host engine.HostConfig, s *containers.Service) engine.HostConfig {
	for port, here := range s.Ports {
		if host.PortBindings == nil {
			host.PortBindings = map[string][]engine.PortBinding{}
		}
		text := ""
		if here != 0 {
			text = strconv.Itoa(int(here))
		}
		host.PortBindings[tcp(port)] = []engine.PortBinding{{HostIP: loopback, HostPort: text}}
	}
	return host
}

func healthcheck(h *containers.Health) *engine.Healthcheck {
	if h == nil {
		return nil
	}
	return &engine.Healthcheck{
		Test: []string{"CMD-SHELL", h.Command}, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries,
	}
}

// portsOf are the ports on this machine that lead to a service.
func (v *companions) portsOf(ctx context.Context, s *service) (map[uint16]uint16, error) {
	if len(s.spec.Ports) == 0 {
		return nil, nil
	}
	found, err := v.executor.client.Containers.Inspect(ctx, s.id)
	if err != nil {
		return nil, v.executor.unreachable(ctx, err)
	}
	out := map[uint16]uint16{}
	for port := range s.spec.Ports {
		if here := bound(found, port); here != 0 {
			out[port] = here
		}
	}
	return out, nil
}

// bound is the port on this machine that leads to one of a container; 0 is none.
func bound(found *engine.ContainerState, port uint16) uint16 {
	for _, b := range found.NetworkSettings.Ports[tcp(port)] {
		return containers.PortNumber(b.HostPort)
	}
	return 0
}

// reaching is how a port of a service is tried: from the job's container, as this machine may not be on its network, or from this machine
// where there is no such container.
func (v *companions) reaching(s *service, found *engine.ContainerState, port uint16) (func(context.Context) error, error) {
	if v.container != "" {
		address, ok := addressOf(found.NetworkSettings.Networks)
		if !ok && !(operator{v.preparation}).ownNetwork() && v.executor.opts.Network.Mode == "host" {
			address, ok = netip.MustParseAddr(loopback), true
		}
		if !ok {
			return nil, errors.New("it has no address any more")
		}
		return func(ctx context.Context) error { return v.reach(ctx, netip.AddrPortFrom(address, port)) }, nil
	}
	here := bound(found, port)
	if here == 0 {
		return func(context.Context) error { return nil }, nil // nobody can reach it from here
	}
	return func(ctx context.Context) error {
		return awaitPort(ctx, v.executor.engine.dialer(), net.JoinHostPort(loopback, strconv.Itoa(int(here))))
	}, nil
}

// awaitPort waits until an address takes connections and keeps them.
func awaitPort(ctx context.Context, dial engine.Dialer, address string) error {
	for {
		conn, err := dial(ctx, "tcp", address)
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(listens))
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
			var timeout net.Error
			if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
}

// awaitHealth waits until the engine finds a service well. How long that may take is for its health check to say.
func (v *companions) awaitHealth(ctx context.Context, s *service) error {
	for {
		found, err := v.executor.client.Containers.Inspect(ctx, s.id)
		switch {
		case err != nil:
			return v.executor.unreachable(ctx, err)
		case !found.State.Running:
			return endedWith(found.State.ExitCode)
		}
		switch found.State.Health.Status {
		case "healthy":
			return nil
		case "unhealthy":
			return fmt.Errorf("its health check %q fails", s.spec.Health.Command)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
}
