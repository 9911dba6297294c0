package container

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/steps/event"
)

// The files with the name servers of a Linux machine. The second has those behind systemd's own, which only the machine itself reaches.
const (
	resolverFile = "/etc/resolv.conf"
	systemdFile  = "/run/systemd/resolve/resolv.conf"
	// maxResolver bounds them, in bytes.
	maxResolver = 64 << 10
)

// nameService puts the names of a service that runs into the hosts files of the containers that are made next.
func (v *companions) nameService(ctx context.Context, s *service) error {
	if !v.executor.opts.OwnNames {
		return nil
	}
	found, err := v.executor.client.Containers.Inspect(ctx, s.id)
	if err != nil {
		return v.executor.failed(ctx, "looking for the address of "+s.String(), err)
	}
	for _, at := range found.NetworkSettings.Networks {
		if !at.IPAddress.IsValid() {
			continue // it has ended already, which is told where it is waited for
		}
		for _, name := range s.aliases {
			v.hosts = append(v.hosts, name+":"+at.IPAddress.String())
		}
	}
	return nil
}

// nameServers makes the job's container ask the name servers of the engine's machine. What these are is not known of an engine that is reached
// by TCP.
func (v *preparation) nameServers(ctx context.Context) error {
	if !v.executor.opts.OwnNames || v.job.Network != executor.NetworkDefault {
		return nil
	}
	const doing = "telling the job's container its name servers"
	if given := v.executor.opts.Job.Names; len(given.DNS) > 0 {
		text := "nameserver " + strings.Join(given.DNS, "\nnameserver ") + "\n"
		if len(given.DNSSearch) > 0 {
			text += "search " + strings.Join(given.DNSSearch, " ") + "\n"
		}
		return v.asRoot(ctx, doing, []byte(text), "overwrite", resolverFile)
	}
	if !strings.HasPrefix(v.executor.engine.Host, "unix://") {
		return nil
	}
	text := v.executor.engine.resolver(ctx, resolverFile)
	if bytes.Equal(reachable(text), withoutServers(text)) {
		text = v.executor.engine.resolver(ctx, systemdFile)
	}
	text = reachable(text)
	if !bytes.Contains(text, []byte("nameserver ")) {
		v.report.Say(event.PhaseStarting, "names", "the engine's machine has no name server that the job could ask: only services have names")
		return nil
	}
	return v.asRoot(ctx, doing, text, "overwrite", resolverFile)
}

// resolver reads a file of the engine's machine; nothing where there is none.
func (e *Engine) resolver(ctx context.Context, file string) []byte {
	if e.on == nil {
		text, _ := os.ReadFile(file)
		return text[:min(len(text), maxResolver)]
	}
	var out bytes.Buffer
	p, err := e.on.Exec(ctx, &host.Command{Args: []string{"head", "-c", fmt.Sprint(maxResolver), file}, Stdout: &out})
	if err == nil {
		_, _ = p.Wait()
	}
	return out.Bytes()
}

// reachable is such a file without the name servers that only the machine itself reaches.
func reachable(text []byte) []byte {
	return filter(text, func(address net.IP) bool { return !address.IsLoopback() })
}

func withoutServers(text []byte) []byte {
	return filter(text, func(net.IP) bool { return false })
}

func filter(text []byte, keep func(net.IP) bool) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.ContainsAny(fields[0][:1], "#;") {
			continue
		}
		if fields[0] == "nameserver" && (len(fields) < 2 || net.ParseIP(fields[1]) == nil || !keep(net.ParseIP(fields[1]))) {
			continue
		}
		out.WriteString(strings.Join(fields, " ") + "\n")
	}
	return out.Bytes()
}
