// Package connect makes hosts of the machines that providers give: how to get to a machine is data there, and a connection here.
package connect

import (
	"context"
	"fmt"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/provider"
)

// Host connects to a machine. program finds a step-runner for the system and architecture of the machine, see executor.Setup.
func Host(ctx context.Context, to provider.Access, program func(system, arch string) (string, error)) (host.Host, error) {
	if err := to.Validate(); err != nil {
		return nil, fmt.Errorf("the machine cannot be reached: %w", err)
	}
	switch to.Protocol {
	case provider.Local:
		return local.New(), nil
	case provider.WinRM, provider.WinRMHTTPS:
		return windows(ctx, to, program)
	}
	address := to.Address
	if to.User != "" {
		address = to.User + "@" + address
	}
	o := ssh.Options{
		Address: address, Key: to.KeyFile, KeyText: to.Key, Password: to.Password, Renew: to.Renew, Fingerprint: to.HostKey, Record: to.Record || to.KnownHosts == "", Jump: to.Jump, Via: to.Via,
		Program: func(p host.Platform) (string, error) { return program(p.OS, p.Arch) },
	}
	if to.KnownHosts != "" {
		o.KnownHosts = []string{to.KnownHosts}
	}
	h, err := ssh.New(ctx, o)
	if err != nil {
		return nil, err
	}
	return h, nil
}
