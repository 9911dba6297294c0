package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/steps/event"
)

// A sandbox has its network in a namespace of its own. What leads out of it is a program of this machine, so nothing of the machine's own network
// and firewall is changed: slirp4netns, which makes connections for a job that may reach everything but the machine's loopback addresses, or the
// gateway (gateway.go), which holds a job to its network policy. Either ends with the runsc that has the other end of a pipe to it.
//
//	a job alone       namespace ID: eth0 is slirp4netns
//	with services,    namespaces ID, ID-1, …: eth0 ── namespace ID-net: a bridge, with slirp4netns on it
//	under a policy                                                            or with the gateway listening there
//
// Nothing forwards packets from a bridge to the machine: what a policy does not let through has no way.

const (
	// namespaces is where `ip netns` keeps namespaces.
	namespaces = "/run/netns"
	// netnsFile holds the names of a sandbox's namespaces, and is there before they are made.
	netnsFile = "netns"
	// netPipe is the pipe that ends what leads out.
	netPipe = "net"
	// networkTime bounds how long the network may take.
	networkTime = 10 * time.Second
	// slirpLauncher becomes slirp4netns, which says on its standard output when it is ready, and nothing else.
	slirpLauncher = `exec "$@" 3<` + netPipe + ` 4>&1 >/dev/null 2>&1`
	// mtu is the most that slirp4netns carries at once, in bytes.
	mtu = "65520"
	// link is what every sandbox calls the way to others, and bridge what joins those of a job.
	link, bridge = "eth0", "bridge"
)

// The addresses are those of slirp4netns, on bridges, too.
var (
	subnet     = netip.MustParsePrefix("10.0.2.0/24")
	gatewayAt  = netip.MustParseAddr("10.0.2.1")
	routerAt   = netip.MustParseAddr("10.0.2.2")
	nameServer = netip.MustParseAddr("10.0.2.3")
	jobAt      = netip.MustParseAddr("10.0.2.100")
)

// network is what gives a sandbox its network.
type network struct {
	path   string          // of the namespace
	names  bool            // it has a name server
	held   *os.File        // our end of the pipe to what leads out, until runsc has its own
	out    host.Process    // what leads out; ends with runsc
	closed <-chan struct{} // when it has ended
}

// makeNetwork makes the network of the sandbox and its services; nil is none.
func (v *preparation) makeNetwork(ctx context.Context) (n *network, err error) {
	proxied, shared := v.job.Network.Proxied(), v.job.Network.Proxied() || len(v.services) > 0
	open := v.job.Network == executor.NetworkDefault && v.executor.slirp
	if v.job.Network == executor.NetworkDefault && !open {
		v.report.Say(event.PhaseStarting, "network", "the sandbox has no network: install slirp4netns and iproute2, or use a container engine with the runtime runsc")
	}
	if !open && !shared {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, networkTime, fmt.Errorf("the network was not ready within %s", networkTime))
	defer cancel()
	name := filepath.Base(v.at.dir)
	members, at := []string{name}, name
	for _, s := range v.services {
		members = append(members, s.name)
	}
	all := members
	if shared {
		at = name + "-net"
		all = append(all, at)
	}
	const own = 0o600
	if err := os.WriteFile(v.at.path(netnsFile), []byte(strings.Join(all, "\n")), own); err != nil {
		return nil, err
	}
	for _, name := range all {
		if err := v.executor.ip(ctx, "", "netns", "add", name); err != nil {
			return nil, fmt.Errorf("making a network namespace for the sandbox: %w", err)
		}
	}
	n = &network{path: filepath.Join(namespaces, name), names: open}
	if shared {
		err = v.executor.join(ctx, at, members, open)
	}
	if err == nil && (open || proxied) {
		err = v.leadOut(ctx, n, at, shared)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a network for the sandbox: %w", err), n.release())
	}
	return n, nil
}

// leadOut leads from a namespace to others.
func (v *preparation) leadOut(ctx context.Context, n *network, at string, shared bool) (err error) {
	if err := makePipe(v.at.path(netPipe)); err != nil {
		return err
	}
	if n.held, err = openPipe(v.at.path(netPipe)); err != nil {
		return err
	}
	file := filepath.Join(namespaces, at)
	if !v.job.Network.Proxied() {
		if err := v.lead(ctx, n, v.slirp(file, shared)); err != nil || !shared {
			return err
		}
		return v.executor.ip(ctx, "", "-netns", at, "link", "set", link, "mtu", mtu, "master", bridge, "up")
	}
	command, err := v.gateway(file)
	if err != nil {
		return err
	}
	return v.lead(ctx, n, command)
}

// release leaves it to runsc to end what leads out.
func (n *network) release() error {
	if n == nil || n.held == nil {
		return nil
	}
	return n.held.Close()
}

// end waits until what leads out has ended.
func (n *network) end(ctx context.Context) error {
	if n == nil || n.closed == nil {
		return nil
	}
	_ = n.release() // done before, but where the sandbox was not started
	select {
	case <-n.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("what leads out of its network has not ended: %w", context.Cause(ctx))
	}
}

// slirp is slirp4netns as the link of a namespace; on a bridge, it is for others to set that up.
func (v *preparation) slirp(namespace string, onBridge bool) *host.Command {
	args := []string{"sh", "-c", slirpLauncher, "sh", "slirp4netns", "--mtu=" + mtu, "--disable-host-loopback", "--enable-seccomp", "--exit-fd=3", "--ready-fd=4", "--netns-type=path"}
	if !onBridge {
		args = append(args, "--configure")
	}
	return &host.Command{Args: v.executor.outside(append(args, namespace, link)...)}
}

// outside is a command in the network by which sandboxes reach others: this machine's, or a namespace of the operator's.
func (e *Executor) outside(args ...string) []string {
	if e.opts.Network == "" {
		return args
	}
	return append([]string{"ip", "netns", "exec", e.opts.Network}, args...)
}

// join makes a bridge in one namespace, and links others to it. open says that slirp4netns will be there.
func (e *Executor) join(ctx context.Context, at string, others []string, open bool) error {
	var links, ports strings.Builder
	fmt.Fprintf(&ports, "link add %s type bridge\naddress add %s/%d dev %[1]s\n", bridge, gatewayAt, subnet.Bits())
	for i, name := range others {
		fmt.Fprintf(&links, "link add %s mtu %s netns %s type veth peer name port%d mtu %[2]s netns %[5]s\n", link, mtu, name, i, at)
		fmt.Fprintf(&ports, "link set port%d master %s up\n", i, bridge)
	}
	fmt.Fprintf(&ports, "link set %s up\n", bridge)
	err := e.ip(ctx, links.String(), "-batch", "-")
	if err == nil {
		err = e.ip(ctx, ports.String(), "-netns", at, "-batch", "-")
	}
	address, route := jobAt, ""
	if open {
		route = fmt.Sprintf("route add default via %s\n", routerAt)
	}
	for _, name := range others {
		if err == nil {
			err = e.ip(ctx, fmt.Sprintf("link set lo up\naddress add %s/%d dev %s\nlink set %[3]s up\n%s", address, subnet.Bits(), link, route), "-netns", name, "-batch", "-")
		}
		address = address.Next()
	}
	return err
}

// lead starts what leads out of a network, and waits until it is ready.
func (v *preparation) lead(ctx context.Context, n *network, command *host.Command) (err error) {
	ready, closed, said := newSignal(), make(chan struct{}), &container.Said{}
	command.Dir, command.Stdout, command.Stderr = v.at.dir, ready, said
	if n.out, err = v.executor.host.Exec(context.WithoutCancel(ctx), command); err != nil {
		return err
	}
	n.closed = closed
	go func() {
		_, _ = n.out.Wait()
		close(closed)
	}()
	select {
	case <-ready.given:
		return nil
	case <-closed:
		err = fmt.Errorf("%s ended before it was ready: %s", command.Args, said)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(err, n.out.Kill())
}

// ip runs ip of iproute2, whose input may be commands.
func (e *Executor) ip(ctx context.Context, commands string, args ...string) error {
	var said bytes.Buffer
	p, err := e.host.Exec(ctx, &host.Command{Args: append([]string{"ip"}, args...), Stdin: strings.NewReader(commands), Stdout: &said, Stderr: &said})
	if err != nil {
		return err
	}
	code, err := p.Wait()
	if err == nil && code != 0 {
		err = fmt.Errorf("ip ends with exit code %d: %s", code, strings.TrimSpace(said.String()))
	}
	return err
}

// removeNetwork removes the namespaces of a sandbox that has ended.
func (b *box) removeNetwork(ctx context.Context) error {
	names, err := os.ReadFile(b.path(netnsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range strings.Fields(string(names)) {
		if _, statErr := os.Stat(filepath.Join(namespaces, name)); !errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, b.executor.ip(ctx, "", "netns", "delete", name))
		}
	}
	return err
}

// signal is a writer that tells the first write.
type signal struct {
	given chan struct{}
	done  bool
}

func newSignal() *signal { return &signal{given: make(chan struct{})} }

// Write implements io.Writer; one goroutine calls it.
func (s *signal) Write(p []byte) (int, error) {
	if !s.done {
		s.done = true
		close(s.given)
	}
	return len(p), nil
}
