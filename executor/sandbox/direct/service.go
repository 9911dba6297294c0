package direct

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/sandbox/rootfs"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// A service is a sandbox beside that of its job, on the same bridge, with the names of all of them in its /etc/hosts. Its main process is the
// step-runner, which becomes the service's program: that, and its environment, which may hold secrets, come through a pipe, as runsc keeps what
// it is told on the disk.

const (
	// servicePrefix begins the names of the folders of services.
	servicePrefix = "service-"
	// describedPipe is the pipe by which a service learns what it is to become.
	describedPipe = "described"
	// serviceLauncher becomes runsc.
	serviceLauncher = `exec "$@" 1<>` + saidPipe + ` 2>&1 3<` + describedPipe
	// maxServices is how many a job has at most: the network has no more addresses.
	maxServices = 100

	// How Docker checks services that say nothing else.
	healthInterval, healthTimeout, healthRetries = 30 * time.Second, 30 * time.Second, 3
	// healthPause is the longest time between two checks of a service that is waited for.
	healthPause = time.Second
)

// service is a sandbox beside the job's.
type service struct {
	spec    *containers.Service
	image   *rootfs.Image
	at      *box
	name    string // of its namespace and its control group
	address netip.Addr
	process process // what it becomes
	said    *container.Said

	runsc host.Process
	ended chan struct{} // closed when it has
	code  int           // with which it has ended
}

func (s *service) String() string { return "service " + s.spec.Name }

// companions are the services of a job.
type companions struct{ *preparation }

// findServices gets the images of the services, and finds out what they are to run.
func (v companions) findServices(ctx context.Context) error {
	if len(v.job.Services) > maxServices {
		return &executor.UserError{Message: fmt.Sprintf("the job has %d services", len(v.job.Services)), Hint: fmt.Sprintf("it can have %d", maxServices)}
	}
	address := jobAt
	name := filepath.Base(v.at.dir)
	problems := make([]error, len(v.job.Services))
	var wg sync.WaitGroup
	for i := range v.job.Services {
		address = address.Next()
		number := strconv.Itoa(i + 1)
		s := &service{
			spec: &v.job.Services[i], at: v.at.beside(servicePrefix + number), name: name + "-" + number, address: address, said: &container.Said{}, ended: make(chan struct{}),
		}
		v.services = append(v.services, s)
		wg.Go(func() {
			if s.image, problems[i] = v.find(ctx, &s.spec.Image); problems[i] == nil {
				problems[i] = v.describe(s)
			}
		})
	}
	wg.Wait()
	for _, err := range problems {
		if err != nil {
			return err // one is enough to read
		}
	}
	return nil
}

// describe says what a service is to become.
func (v companions) describe(s *service) error {
	as, home, err := userOf(s.image, s.spec.User, s.String())
	if err != nil {
		return err
	}
	config := s.image.Config
	entrypoint, command := config.Entrypoint, s.spec.Command
	if s.spec.Entrypoint != nil {
		entrypoint = s.spec.Entrypoint
	} else if command == nil {
		command = config.Cmd
	}
	if strings.Join(entrypoint, "") == "" {
		entrypoint = nil
	}
	s.process = process{User: as, Args: slices.Concat(entrypoint, command), Cwd: cmp.Or(config.WorkingDir, "/"), Capabilities: rightsOf(as.UID)}
	if len(s.process.Args) == 0 {
		return &executor.UserError{Message: fmt.Sprintf("%s has nothing to run: its image names no program", s), Hint: "write its entrypoint or command"}
	}
	all := map[string]string{"PATH": defaultPath, "HOME": home}
	for _, pair := range config.Env {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	for _, more := range []map[string]string{v.way(), v.job.ServiceVariables(), s.spec.Variables} {
		for name, value := range more {
			if name != "" && name != "PATH" {
				all[name] = value
			}
		}
	}
	if path := s.spec.Variables["PATH"]; path != "" {
		all["PATH"] = path
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.process.Env = append(s.process.Env, name+"="+all[name])
	}
	return nil
}

// hosts are the names of a sandbox, of localhost, and of the services.
func (v *preparation) hosts(own string) []byte {
	text := fmt.Appendf(nil, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t%s\n", own)
	for _, s := range v.services {
		text = fmt.Appendf(text, "%s\t%s\n", s.address, strings.Join(s.spec.Names(), " "))
	}
	return text
}

// startServices starts the services, in their order.
func (v companions) startServices(ctx context.Context) error {
	for _, s := range v.services {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("starting %s as %s", s, strings.Join(s.spec.Names(), ", ")))
		if len(s.spec.Ports) > 0 {
			v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("the ports of %s lead to no port on this machine: the job reaches it by its names", s))
		}
		if err := v.startService(ctx, s); err != nil {
			return fmt.Errorf("starting %s: %w", s, err)
		}
	}
	return nil
}

func (v companions) startService(ctx context.Context, s *service) error {
	const own = 0o700
	for _, dir := range []string{s.at.dir, s.at.path("state"), s.at.path("upper")} {
		if err := os.Mkdir(dir, own); err != nil {
			return err
		}
	}
	group, err := s.at.bind("", s.name, v.job.ServiceResources)
	if err != nil {
		return err
	}
	first := process{
		User: s.process.User, Args: []string{programFile, "become"}, Env: []string{}, Cwd: "/", Capabilities: s.process.Capabilities,
	}
	mounts, err := s.at.mounts(keeping(v).volumes())
	if err != nil {
		return err
	}
	spec := s.at.spec(v.executor.program, hostname(s.name), s.image.Root, group, filepath.Join(namespaces, s.name), mounts, first)
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := s.at.write(map[string][]byte{"config.json": text, "hosts": v.hosts(hostname(s.name)), "resolv.conf": v.resolver()}); err != nil {
		return err
	}
	described := &pipe{s.at.path(describedPipe)}
	if err := errors.Join(makePipe(described.path), makePipe(s.at.path(saidPipe))); err != nil {
		return err
	}
	said, err := openPipe(s.at.path(saidPipe))
	if err != nil {
		return err
	}
	go v.hear(said, s.said)
	args := append([]string{"sh", "-c", serviceLauncher, "sh"}, s.at.command(s.at.options(v.job.ServiceResources.Disk, group, true), "run", "--pass-fd", "3:3", "--bundle", s.at.dir, boxID)...)
	if s.runsc, err = v.executor.host.Exec(context.WithoutCancel(ctx), &host.Command{Args: args, Dir: s.at.dir}); err != nil {
		return err
	}
	go func() {
		defer close(s.ended)
		s.code, _ = s.runsc.Wait()
	}()
	if text, err = json.Marshal(s.process); err != nil {
		return err
	}
	return described.send(text, s.ended)
}

// awaitServices waits until the services can be connected to, as level container does. One that cannot is reported with its log, and the job
// goes on.
func (v companions) awaitServices(ctx context.Context) error {
	if v.executor.opts.ServiceWait < 0 {
		return nil
	}
	var wg sync.WaitGroup
	for _, s := range v.services {
		ready := v.awaitHealth
		if s.spec.Health == nil {
			port := s.port(v.job.Variables)
			if port == 0 {
				v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("%s exposes no port, so it is not waited for", s))
				continue
			}
			ready = func(ctx context.Context, s *service) error { return v.awaitPort(ctx, s, port) }
		}
		wg.Go(func() {
			if err := v.unlessEnded(ctx, s, ready); err != nil && ctx.Err() == nil {
				v.report.Say(event.PhaseServices, s.spec.Name, fmt.Sprintf("warning: %s probably did not start properly: %v", s, err))
				s.said.ReportService(v.report, s.spec, v.job.Masked)
			}
		})
	}
	wg.Wait()
	for _, s := range v.services {
		if s.unable() {
			return &executor.UserError{Message: fmt.Sprintf("%s cannot be started: %s", s, s.said), Hint: "correct its entrypoint, command, user or platform"}
		}
	}
	return context.Cause(ctx)
}

// unable reports whether the service has ended because its program could not be started.
func (s *service) unable() bool {
	select {
	case <-s.ended:
		return s.code != 0 && strings.Contains(s.said.String(), "cannot become")
	default:
		return false
	}
}

// unlessEnded waits for a service as long as it runs.
func (v companions) unlessEnded(ctx context.Context, s *service, ready func(context.Context, *service) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- ready(ctx, s) }()
	select {
	case err := <-done:
		return err
	case <-s.ended:
		return fmt.Errorf("it ended with code %d", s.code)
	}
}

// port is the port of a service that is tried; 0 is none.
func (s *service) port(job map[string]string) uint16 {
	if n := s.spec.NamedPort(job); n != 0 {
		return n
	}
	if all := containers.TCPPorts(s.image.Config.ExposedPorts); len(all) > 0 {
		return all[0]
	}
	return 0
}

// awaitPort waits until a port of a service can be connected to from the job's sandbox.
func (v companions) awaitPort(ctx context.Context, s *service, port uint16) error {
	limit := cmp.Or(v.executor.opts.ServiceWait, container.DefaultServiceWait)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its port %d cannot be connected to after %s", port, limit))
	defer cancel()
	var errs bytes.Buffer
	to := netip.AddrPortFrom(s.address, port).String()
	code, err := v.run(ctx, &executor.Shell{Args: []string{programFile, "reach", "--timeout", limit.String(), to}, Dir: "/", Stderr: &errs}, user{})
	switch {
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("port %d cannot be tried: %s", port, strings.TrimSpace(errs.String()))
	}
	return nil
}

// awaitHealth waits until a service's own check succeeds, or has failed too often.
func (v companions) awaitHealth(ctx context.Context, s *service) error {
	h := s.spec.Health
	check := s.process
	check.Args = []string{"/bin/sh", "-c", h.Command}
	began, failures := time.Now(), 0
	for {
		trying, cancel := context.WithTimeout(ctx, cmp.Or(h.Timeout, healthTimeout))
		running, err := s.at.exec(trying, &check, &host.Command{})
		if err == nil {
			var code int
			if code, err = running.Wait(); err == nil && code == 0 {
				cancel()
				return nil
			}
		}
		cancel()
		if time.Since(began) >= h.StartPeriod+time.Duration(failures)*cmp.Or(h.Interval, healthInterval) {
			failures++
		}
		if failures >= cmp.Or(h.Retries, healthRetries) {
			return fmt.Errorf("its health check %q fails", h.Command)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(cmp.Or(h.Interval, healthInterval), healthPause)):
		}
	}
}

// hear reads what a sandbox says, until the environment ends. A pipe that nobody reads would stop who writes to it.
func (v *environment) hear(from *os.File, to io.Writer) {
	stop := context.AfterFunc(v.Lifetime(), func() { from.Close() })
	defer stop()
	_, _ = io.Copy(to, from)
}

// hearServices hears the services that another process has started.
func (v *environment) hearServices() {
	found, _ := filepath.Glob(v.at.path(servicePrefix + "*"))
	for _, dir := range found {
		if said, err := openPipe(v.executor.at(dir).path(saidPipe)); err == nil {
			go v.hear(said, io.Discard)
		}
	}
}

// endServices kills the runsc of each service, which may be about to make its sandbox.
func (v *environment) endServices(ctx context.Context) error {
	for _, s := range v.services {
		if s.runsc == nil {
			continue
		}
		if err := s.runsc.Kill(); err != nil {
			return fmt.Errorf("ending %s: %w", s, err)
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
			return fmt.Errorf("%s has not ended: %w", s, context.Cause(ctx))
		}
	}
	return nil
}
