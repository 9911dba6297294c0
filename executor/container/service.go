package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

const (
	// DefaultServiceWait is how long a service may take until its port can be connected to, as GitLab's runner has it.
	DefaultServiceWait = 30 * time.Second
	// serviceTail is how many lines of a service's log are shown when it does not start.
	serviceTail = 50
)

// service is a container beside the job's.
type service struct {
	spec    *containers.Service
	number  int
	image   *image
	id      string
	aliases []string
}

func (s *service) String() string { return "service " + s.spec.Name }

// companions starts the services of a job.
type companions struct{ *preparation }

// makeNetwork makes the network on which a job reaches its services, unless the operator names one.
func (v *preparation) makeNetwork(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o := v.executor.opts.Network
	if !(operator{v}).ownNetwork() {
		v.network = o.Mode
		return nil
	}
	calling, cancel := making(ctx)
	defer cancel()
	id, err := v.executor.createNetwork(calling, engine.Network{
		Name: v.name, Labels: v.labels(), Internal: v.job.Network != executor.NetworkDefault,
		IPv6: o.IPv6 && v.job.Network == executor.NetworkDefault, // an engine's machine has an address of IPv6 on every such network
		MTU:  o.MTU,
	})
	v.network = id
	if o.MACAddress != "" { // engines before version 1.44 of the API give it to a container by the network's name alone
		v.network = v.name
	}
	if err == nil && v.job.Network != executor.NetworkDefault {
		v.executor.engine.refuseFrom(calling, id)
	}
	err = v.executor.failed(calling, "making a network for the job and its services", err)
	if engine.NoSubnet(err) {
		err = fmt.Errorf("%w; raise default-address-pools in the engine's daemon.json, or let jobs share a network by network_mode", err)
	}
	return err
}

const (
	// subnetBits is the size of a network that an engine has no addresses for: 29 containers.
	subnetBits = 27
	// subnetTries bounds how many subnets are tried.
	subnetTries = 32
)

// subnets are where they are: in the range for measurements (RFC 2544), of which nothing is on the Internet.
var subnets = netip.MustParsePrefix("198.18.0.0/17")

// createNetwork makes a network. One that the engine has no addresses for has some of subnets: random ones, so that jobs that start at once do not all try the same.
func (e *Executor) createNetwork(ctx context.Context, n engine.Network) (id string, err error) {
	id, full := e.client.Networks.Create(ctx, n)
	if !engine.NoSubnet(full) {
		return id, full
	}
	for range subnetTries {
		at := subnets.Addr().As4()
		binary.BigEndian.PutUint32(at[:], binary.BigEndian.Uint32(at[:])|rand.Uint32N(1<<(subnetBits-subnets.Bits()))<<(32-subnetBits))
		n.Subnet = netip.PrefixFrom(netip.AddrFrom4(at), subnetBits)
		if id, err = e.client.Networks.Create(ctx, n); !engine.SubnetTaken(err) {
			return id, err
		}
	}
	return "", full
}

// startServices makes the network and starts the services on it.
func (v *companions) startServices(ctx context.Context, services []*service) error {
	for _, s := range services {
		if err := v.startService(ctx, s); err != nil {
			return err
		}
		if err := v.nameService(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (v *companions) startService(ctx context.Context, s *service) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	calling, cancel := making(ctx)
	defer cancel()
	on, err := parsePlatform(s.spec.Platform)
	if err != nil {
		return err
	}
	s.aliases = s.spec.Names()
	v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("starting %s as %s", s, strings.Join(s.aliases, ", ")))
	given := operator{v.preparation}
	host := published(v.bounded(v.hostConfig(given.servicePrivileged(s), given.serviceMachine(s)), v.job.ServiceResources), s.spec)
	s.id, err = v.executor.client.Containers.Create(calling, v.name+"-service-"+strconv.Itoa(s.number), on.String(), &engine.Container{
		Image: s.image.id, User: s.spec.User, Labels: given.labelled(), Entrypoint: s.spec.Entrypoint, Cmd: s.spec.Command, Env: v.serviceEnv(s),
		Healthcheck: healthcheck(s.spec.Health), ExposedPorts: exposed(s.spec), HostConfig: host,
		NetworkingConfig: given.endpoint(s.aliases, ""),
	})
	if err != nil {
		return v.notMade(calling, "the container of "+s.String(), s.spec.Name, v.job.ServiceResources, err)
	}
	if err := v.executor.client.Containers.Start(calling, s.id); err != nil {
		return v.startError(calling, s.String(), err)
	}
	return nil
}

// serviceEnv is the job's variables, and over them the service's own.
func (v *companions) serviceEnv(s *service) (env []string) {
	variables := v.job.ServiceVariables()
	for name, value := range variables {
		if _, own := s.spec.Variables[name]; !own && name != "PATH" && name != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range v.proxy.env(v.job.Services) {
		_, of := variables[name]
		if _, own := s.spec.Variables[name]; !own && !of {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range s.spec.Variables {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// awaitServices waits until the services can be connected to. As with GitLab's runner, one that cannot is reported with its
// log, and the job goes on: it may not need it, or know better how to wait.
func (v *companions) awaitServices(ctx context.Context, services []*service) error {
	if v.executor.opts.ServiceWait < 0 {
		return nil
	}
	var wg sync.WaitGroup
	for _, s := range services {
		if s.spec.Health != nil {
			wg.Go(func() { v.tellOf(ctx, s, v.awaitHealth(ctx, s)) })
			continue
		}
		port, known := v.servicePort(s)
		if !known {
			v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("%s exposes no port, so it is not waited for", s))
			continue
		}
		wg.Go(func() { v.tellOf(ctx, s, v.awaitPort(ctx, s, port)) })
	}
	wg.Wait()
	return context.Cause(ctx)
}

// tellOf reports why a service does not seem to be ready, if it does not.
func (v *companions) tellOf(ctx context.Context, s *service, err error) {
	if err != nil && ctx.Err() == nil {
		v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("warning: %s probably did not start properly: %v", s, err))
		v.reportLog(ctx, s)
	}
}

// servicePort is the port of a service that is tried.
func (v *companions) servicePort(s *service) (uint16, bool) {
	if n := s.spec.NamedPort(v.job.Variables); n != 0 {
		return n, true
	}
	if v.container == "" { // it is reached by what is published alone
		all := slices.Sorted(maps.Keys(s.spec.Ports))
		return append(all, 0)[0], len(all) > 0
	}
	if len(s.image.ports) == 0 {
		return 0, false
	}
	return s.image.ports[0], true
}

// awaitPort waits until a port of a service can be connected to from the job's container, or the service has ended.
func (v *companions) awaitPort(ctx context.Context, s *service, port uint16) error {
	limit := v.executor.opts.ServiceWait
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its port %d cannot be connected to after %s", port, limit))
	defer cancel()
	c := v.executor.client
	found, err := c.Containers.Inspect(ctx, s.id)
	if err != nil {
		return v.executor.unreachable(ctx, err)
	}
	if !found.State.Running {
		return endedWith(found.State.ExitCode)
	}
	reach, err := v.reaching(s, found, port)
	if err != nil {
		return err
	}
	ended, reached := make(chan int, 1), make(chan error, 1)
	go func() {
		if code, err := c.Containers.Wait(ctx, s.id); err == nil {
			ended <- code
		}
	}()
	go func() { reached <- reach(ctx) }()
	select {
	case err := <-reached:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	case code := <-ended:
		return endedWith(code)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func endedWith(code int) error { return fmt.Errorf("it ended with code %d", code) }

// addressOf is the address of a container on its network.
func addressOf(networks map[string]engine.Endpoint) (netip.Addr, bool) {
	for _, n := range networks {
		if n.IPAddress.IsValid() {
			return n.IPAddress, true
		}
		if n.GlobalIPv6Address.IsValid() {
			return n.GlobalIPv6Address, true
		}
	}
	return netip.Addr{}, false
}

// reach waits until an address can be connected to, from the job's container: this machine may not be on its network.
func (v *companions) reach(ctx context.Context, address netip.AddrPort) error {
	var errs bytes.Buffer
	code, err := v.Shell(ctx, &executor.Shell{Args: []string{programFile, "reach", "--timeout", v.executor.opts.ServiceWait.String(), address.String()}, Dir: "/", Stderr: &errs})
	switch {
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("port %d cannot be tried: %s", address.Port(), strings.TrimSpace(errs.String()))
	}
	return nil
}

// reportLog reports the end of a service's log.
func (v *companions) reportLog(ctx context.Context, s *service) {
	log, err := v.executor.client.Containers.Log(ctx, s.id, serviceTail)
	if err != nil {
		v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("the log of %s cannot be read: %v", s, err))
		return
	}
	defer log.Close()
	said := &Said{}
	_ = engine.Demultiplex(said, said, log)
	said.ReportService(v.report, s.spec, v.job.Masked)
}
