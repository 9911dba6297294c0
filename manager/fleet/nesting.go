package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/nesting/client"
)

// isolated reports whether each job gets a virtual machine.
func isolated(m *config.Machinery) bool {
	return m.Autoscaler != nil && m.Autoscaler.VMIsolation.Enabled
}

// checkIsolation refuses what cannot be.
func checkIsolation(m *config.Machinery) error {
	if !isolated(m) {
		return nil
	}
	of := m.Autoscaler.VMIsolation
	switch c, err := newNesting(of, cmp.Or(of.NestingHost, "unix:default"), nil); {
	case err != nil:
		return fmt.Errorf("[runners.autoscaler.vm_isolation]: %w", err)
	default:
		_ = c.Close()
	}
	if _, known := protocols[group.Protocol(of.Connector.Protocol)]; !known {
		return fmt.Errorf("[runners.autoscaler.vm_isolation.connector_config]: virtual machines are reached by ssh, winrm or winrm+https, not by %q", of.Connector.Protocol)
	}
	return nil
}

// newNesting is a client of a service that dial leads to.
func newNesting(of config.VMIsolation, target string, dial func(context.Context, string, string) (net.Conn, error)) (*client.Client, error) {
	o := client.Options{Target: target, Dial: dial}
	if of.NestingConfig != nil {
		var err error
		if o.Config, err = json.Marshal(of.NestingConfig); err != nil {
			return nil, fmt.Errorf("nesting_config cannot be JSON, which nesting reads: %w", err)
		}
	}
	return client.New(o)
}

// ask asks the service of a machine for something.
func (h *hosts) ask(ctx context.Context, m *control.Machine, do func(*client.Client) error) error {
	s, err := h.get(ctx, m)
	if err != nil {
		return fmt.Errorf("%s cannot be reached: %w", nameOf(m), err)
	}
	defer h.leave(s)
	of := h.p.o.Machinery.Autoscaler.VMIsolation
	target := of.NestingHost
	if target == "" {
		if target, err = defaultTarget(ctx, s.host); err != nil {
			return fmt.Errorf("where nesting listens on %s is not known, and nesting_host does not say it: %w", nameOf(m), err)
		}
	}
	c, err := newNesting(of, target, s.host.Dial)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := do(c); err != nil {
		return fmt.Errorf("%s: %w", nameOf(m), err)
	}
	return nil
}

// variables are those that say where nesting listens.
var variables = []string{"NESTING_SOCKET", "HOME", "XDG_RUNTIME_DIR", "LOCALAPPDATA"}

// defaultTarget is where the service of a machine listens if nobody has said where.
func defaultTarget(ctx context.Context, on host.Host) (string, error) {
	var out strings.Builder
	args := []string{"/bin/sh", "-c", `for v in "$NESTING_SOCKET" "$HOME" "$XDG_RUNTIME_DIR" ""; do printf '%s\n' "$v"; done`}
	if on.Platform().OS == "windows" {
		args = []string{"powershell.exe", "-NoProfile", "-NonInteractive", "-Command", "$env:NESTING_SOCKET; $env:USERPROFILE; ''; $env:LOCALAPPDATA"}
	}
	code, err := run(ctx, on, &host.Command{Args: args, Stdout: &out})
	if err == nil && code != 0 {
		err = fmt.Errorf("asking for its environment exits with %d", code)
	}
	values := map[string]string{}
	for i, line := range strings.Split(out.String(), "\n") {
		if i < len(variables) {
			values[variables[i]] = strings.TrimSuffix(line, "\r")
		}
	}
	return "unix:" + client.Socket(on.Platform().OS, func(name string) string { return values[name] }), err
}
