package connect

import (
	"context"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/winrm"
	"github.com/rungci/rung/executor/provider"
)

// windows connects to a machine behind WinRM.
func windows(ctx context.Context, to provider.Access, program func(system, arch string) (string, error)) (host.Host, error) {
	h, err := winrm.New(ctx, winrm.Options{
		Address: to.Address, HTTPS: to.Protocol == provider.WinRMHTTPS, User: to.User, Password: to.Password, Fingerprint: to.HostKey, Via: to.Via,
		Program: func(p host.Platform) (string, error) { return program(p.OS, p.Arch) },
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}
