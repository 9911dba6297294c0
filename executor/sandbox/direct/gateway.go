package direct

import (
	"net"
	"net/netip"
	"os"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/internal/egress/proxy"
)

// The gateway of a job under a network policy is the step-runner, as level container has it: its proxy connects to what the policy lets through.
// It listens on the bridge of the job, where it is alone with it, and connects from outside, as nobody.

const (
	// gatewayFolder is that of the gateway's control group.
	gatewayFolder = "gateway"
	// gatewayLauncher becomes the gateway.
	gatewayLauncher = `exec "$@" <` + netPipe
)

// gateway is the command of the gateway that listens in a namespace.
func (v *preparation) gateway(namespace string) (*host.Command, error) {
	e := v.executor
	args := e.outside(
		"sh", "-c", gatewayLauncher, "sh", e.program, "egress", string(v.job.Network), "--in", subnet.String(), "--namespace", namespace, "--end-with-input",
	)
	if e.opts.Network != "" { // others are not this machine's there
		own, err := net.InterfaceAddrs()
		if err != nil {
			return nil, err
		}
		for _, at := range own {
			if its, ok := at.(*net.IPNet); ok {
				args = append(args, "--own", its.IP.String())
			}
		}
	}
	command := &host.Command{Args: args, Env: proxy.Environ()}
	return command, v.bindGateway(command)
}

// bindGateway has the gateway start in a control group, where there are any.
func (v *preparation) bindGateway(command *host.Command) error {
	limits := cgroup.Limits{Memory: proxy.Memory, PIDs: proxy.PIDs}
	if v.executor.tree == nil || len(v.executor.tree.Lacks(limits)) > 0 {
		return nil
	}
	group, err := v.executor.tree.Group("", v.layout.Name+"-"+gatewayFolder)
	if err != nil {
		return err
	}
	at := v.at.beside(gatewayFolder)
	const own = 0o700
	if err := os.Mkdir(at.dir, own); err != nil {
		return err
	}
	if err := at.makeGroup(&grouped{Group: group}, limits); err != nil {
		return err
	}
	if dir, is := group.Folder(); is {
		command.Group = dir
	} else {
		command.Args = group.Launch(command.Args)
	}
	return nil
}

// way tells programs of the gateway.
func (v *preparation) way() map[string]string {
	if !v.job.Network.Proxied() {
		return nil
	}
	names := []string{subnet.String()}
	for i := range v.job.Services {
		names = append(names, v.job.Services[i].Names()...)
	}
	return proxy.Env(netip.AddrPortFrom(gatewayAt, proxy.Port), names)
}
