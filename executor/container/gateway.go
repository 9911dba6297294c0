package container

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/egress/proxy"
	"github.com/rungci/rung/steps/containers"
)

// A job that may not reach everything is on a network that leads nowhere. Where it may reach something, a gateway is on it as well, which is
// also on a network that leads out: a container of the step-runner alone, whose proxy connects to what the policy lets through.
//
//	job, services ──── network of the job, internal ──── gateway: step-runner egress POLICY ──── the engine's network ──── the world
//
// Nothing of the job runs in the gateway, and nothing there forwards packets. It is made of the job's image because an engine makes
// containers of images alone; the image brings it no program, no environment that counts, and no user.

const (
	gatewaySuffix = "-gateway"
	nobody        = "65534:65534"
	// nameless is a name server that answers nobody. Some engines ask that of their machine for a container whose network leads nowhere.
	nameless = "127.0.0.1"
)

// lifting are the rights by which a job could reach its machine past the network that it has.
var lifting = []string{"ALL", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_RAWIO", "BPF"}

// gateway makes the way out of a job's network.
type gateway struct{ *preparation }

// admit refuses a job that could lift its network policy by what the operator gives it, or that would get more than the operator gives.
func (g gateway) admit() error {
	if !g.job.Network.Proxied() {
		return nil
	}
	o := &g.executor.opts
	refuse := func(format string, args ...any) error {
		return &executor.Refusal{Level: o.Level, What: fmt.Sprintf("the network policy %q with %s", g.job.Network, fmt.Sprintf(format, args...))}
	}
	if g.job.Image == nil {
		return refuse("services alone")
	}
	given := operator(g)
	if given.privileged() {
		return refuse("a privileged container, which could lift it")
	}
	rights := slices.Clone(o.Job.CapAdd)
	for i := range g.job.Services {
		s := &service{spec: &g.job.Services[i]}
		if given.servicePrivileged(s) {
			return refuse("the privileged %s, which could lift it", s)
		}
		rights = append(rights, given.serviceMachine(s).CapAdd...)
	}
	for _, right := range rights {
		if name := strings.TrimPrefix(strings.ToUpper(right), "CAP_"); slices.Contains(lifting, name) {
			return refuse("the capability %s, which could lift it", name)
		}
	}
	if mode := o.Network.Mode; mode == "none" || strings.HasPrefix(mode, "container:") {
		return refuse("the network %q of the runner, which may lead to less", mode)
	}
	return nil
}

// outside is the network by which the gateway reaches the world.
func (g gateway) outside() string {
	if mode := g.executor.opts.Network.Mode; mode != "" && !isSpecialNetwork(mode) {
		return mode
	}
	return "bridge"
}

// confine takes from a container of the job by what it could reach more than its network policy says.
func (g gateway) confine(host engine.HostConfig) engine.HostConfig {
	if g.job.Network == executor.NetworkDefault || host.Privileged {
		return host
	}
	host.CapDrop = append(slices.Clone(host.CapDrop), "NET_RAW")
	if g.executor.program.docker() {
		host.DNS = []string{nameless}
	}
	return host
}

// start makes the gateway, if the job needs one, and waits until it listens.
func (g gateway) start(ctx context.Context) error {
	if !g.job.Network.Proxied() {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	calling, cancel := making(ctx)
	defer cancel()
	c := g.executor.client
	within, err := g.subnet(calling)
	if err != nil {
		return err
	}
	id, err := g.make(calling, within)
	if err != nil {
		return err
	}
	if err := g.executor.failed(calling, "putting the gateway on the job's network", c.Networks.Join(calling, g.network, id)); err != nil {
		return err
	}
	attached, err := c.Containers.Attach(calling, id, false)
	if err != nil {
		return g.executor.failed(calling, "attaching to the gateway of the job's network", err)
	}
	said, ended := &Said{}, make(chan struct{})
	ready := said.Ready()
	go func() {
		defer close(ended)
		defer attached.Close()
		_ = engine.Demultiplex(said, said, attached)
	}()
	if err := c.Containers.Start(calling, id); err != nil {
		attached.Close()
		return g.executor.failed(calling, "starting the gateway of the job's network", err)
	}
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ready:
	case <-ended:
		return fmt.Errorf("the gateway of the job's network has ended: %s", said)
	case <-late.C:
		return fmt.Errorf("the gateway of the job's network did not start within %s: %s", startTime, said)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return g.find(calling, id, within)
}

// subnet is the job's network.
func (g gateway) subnet(ctx context.Context) (netip.Prefix, error) {
	found, err := g.executor.client.Networks.Inspect(ctx, g.network)
	if err != nil {
		return netip.Prefix{}, g.executor.failed(ctx, "looking for the addresses of the job's network", err)
	}
	for _, pool := range found.IPAM.Config {
		if subnet, err := netip.ParsePrefix(pool.Subnet); err == nil && subnet.Addr().Is4() {
			return subnet.Masked(), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("the engine at %s has made a network without addresses for the job", g.executor.engine)
}

// make makes the gateway's container, with the step-runner in it.
func (g gateway) make(ctx context.Context, within netip.Prefix) (id string, err error) {
	own, err := g.executor.engine.addresses(ctx)
	if err != nil {
		return "", fmt.Errorf("finding the addresses of the engine's machine, which the job's network policy does not open: %w", err)
	}
	args := []string{"egress", string(g.job.Network), "--in", within.String()}
	for _, address := range own {
		args = append(args, "--own", address.String())
	}
	e := g.executor
	host := engine.HostConfig{
		NetworkMode: g.outside(), Memory: proxy.Memory, MemorySwap: proxy.Memory, PidsLimit: proxy.PIDs,
		Machine: engine.Machine{Rights: engine.Rights{CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}}},
	}
	host.Names = e.opts.Job.Names
	digest := ""
	if e.program.shared {
		if digest, err = e.program.digest(); err != nil {
			return "", err
		}
		host.Mounts, host.ReadOnly = []engine.Mount{programMount(digest, false)}, true
	}
	id, err = e.client.Containers.Create(ctx, g.name+gatewaySuffix, g.platform().String(), &engine.Container{
		Image: g.image.id, User: nobody, Labels: g.labels(), Entrypoint: []string{programFile}, Cmd: args, WorkingDir: "/",
		Env:         proxy.Environ(),
		Healthcheck: &engine.Healthcheck{Test: []string{"NONE"}}, HostConfig: host,
	})
	if err != nil {
		return "", e.failed(ctx, "making the gateway of the job's network", err)
	}
	if digest != "" {
		return id, g.ensureProgram(ctx, id, digest)
	}
	err = g.put(ctx, id, "/", func(w *tar.Writer) error {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: binFolder[1:] + "/", Mode: 0o755}); err != nil {
			return err
		}
		return e.program.writeTo(w, programFile[1:])
	})
	return id, e.failed(ctx, "copying the step-runner to the gateway of the job's network", err)
}

// find finds the address at which the job reaches the gateway.
func (g gateway) find(ctx context.Context, id string, within netip.Prefix) error {
	found, err := g.executor.client.Containers.Inspect(ctx, id)
	if err != nil {
		return g.executor.failed(ctx, "looking for the address of the gateway", err)
	}
	for _, at := range found.NetworkSettings.Networks {
		if within.Contains(at.IPAddress) {
			g.proxy = proxied{netip.AddrPortFrom(at.IPAddress, proxy.Port), within}
			return nil
		}
	}
	return errors.New("the gateway of the job's network has no address there")
}

// proxied is where a job finds its proxy; the zero value is nowhere.
type proxied struct {
	at     netip.AddrPort
	beside netip.Prefix // what is reached without it
}

// env tells programs of the proxy, by the variables that most of them know. They reach the services without it.
func (p proxied) env(services []containers.Service) map[string]string {
	if !p.at.IsValid() {
		return nil
	}
	direct := []string{p.beside.String()}
	for i := range services {
		direct = append(direct, services[i].Names()...)
	}
	return proxy.Env(p.at, direct)
}

// addresses are those of the engine's machine, as far as they can be known.
func (e *Engine) addresses(ctx context.Context) ([]netip.Addr, error) {
	switch {
	case !strings.HasPrefix(e.Host, "unix://"):
		_, place, _ := strings.Cut(e.Host, "://")
		place, _, _ = strings.Cut(place, "/")
		if name, _, err := net.SplitHostPort(place); err == nil {
			place = name
		}
		return net.DefaultResolver.LookupNetIP(ctx, "ip", place)
	case e.on == nil:
		found, err := net.InterfaceAddrs()
		if err != nil {
			return nil, err
		}
		var all []netip.Addr
		for _, at := range found {
			if network, ok := at.(*net.IPNet); ok {
				if address, ok := netip.AddrFromSlice(network.IP); ok {
					all = append(all, address.Unmap())
				}
			}
		}
		return all, nil
	}
	var out, said bytes.Buffer
	p, err := e.on.Exec(ctx, &host.Command{Args: []string{"sh", "-c", "grep -B 1 'host LOCAL' /proc/net/fib_trie && cat /proc/net/if_inet6"}, Stdout: &out, Stderr: &said})
	if err != nil {
		return nil, err
	}
	if _, err := p.Wait(); err != nil {
		return nil, err
	}
	all := kernelAddresses(out.String())
	if all == nil {
		return nil, fmt.Errorf("the machine does not say: %s", cmp.Or(strings.TrimSpace(said.String()), "/proc/net/fib_trie names none"))
	}
	return all, nil
}

// refuseFrom lets the engine's machine take nothing from a network that leads nowhere, to which it has no route: not even the datagrams that a program sends
// straight to its link. That needs root there; without it, and in an engine that names its bridges otherwise, it is for the machine's own settings to say.
func (e *Engine) refuseFrom(ctx context.Context, network string) {
	const idLength = 12 // of what an engine calls a bridge
	if !strings.HasPrefix(e.Host, "unix://") || len(network) < idLength {
		return
	}
	setting := "/proc/sys/net/ipv4/conf/br-" + network[:idLength] + "/rp_filter"
	if e.on == nil {
		if file, err := os.OpenFile(setting, os.O_WRONLY, 0); err == nil {
			_, _ = file.WriteString("1")
			_ = file.Close()
		}
		return
	}
	if p, err := e.on.Exec(ctx, &host.Command{Args: []string{"sh", "-c", `[ ! -w "$1" ] || echo 1 >"$1"`, "sh", setting}}); err == nil {
		_, _ = p.Wait()
	}
}

// kernelAddresses reads the lines of /proc/net/fib_trie about local addresses, and those of /proc/net/if_inet6.
func kernelAddresses(text string) (all []netip.Addr) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if address, err := netip.ParseAddr(fields[len(fields)-1]); err == nil && fields[0] == "|--" {
			all = append(all, address)
		} else if bytes, err := hex.DecodeString(fields[0]); err == nil && len(bytes) == 16 {
			all = append(all, netip.AddrFrom16([16]byte(bytes)))
		}
	}
	return all
}
