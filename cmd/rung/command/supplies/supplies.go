// Package supplies opens where the machines of jobs come from: lists, plugins and fleets, as the configuration says.
package supplies

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/connect"
	"github.com/rungci/rung/executor/provider/hosts"
	"github.com/rungci/rung/fleet/group/builtin"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/manager/config"
)

// Provider and Connector are those of manager.Options.
type (
	Provider  = func(ctx context.Context, r *config.Runner, setup provider.Setup) (provider.Provider, error)
	Connector = func(ctx context.Context, to provider.Access) (host.Host, error)
)

// openProvider opens where the machines of an entry come from.
func openProvider(p *command.Program) func(ctx context.Context, r *config.Runner, setup provider.Setup) (provider.Provider, error) {
	return func(ctx context.Context, r *config.Runner, setup provider.Setup) (provider.Provider, error) {
		from := r.Provider
		if len(from.Hosts) > 0 {
			return listed(from, setup)
		}
		options, err := plugin.Options(from.Options)
		if err != nil {
			return nil, fmt.Errorf("[runners.provider.options] cannot be JSON, which plugins read: %w", err)
		}
		opened, err := plugin.OpenProvider(ctx, plugin.Config{
			Name: from.Name, File: from.File, Folder: from.Folder, SHA256: from.SHA256, Args: from.Args, Env: p.Variables(from.Environment), Options: options,
			Log: slog.Default().With("runner", r.Name),
		}, setup)
		if err != nil {
			return nil, err
		}
		return opened, nil
	}
}

// listed is the provider of the hosts that are in the configuration.
func listed(p *config.Provider, setup provider.Setup) (provider.Provider, error) {
	var list []hosts.Host
	for _, h := range p.Hosts {
		to := provider.Access{
			Protocol: provider.SSH, Address: h.Address, KeyFile: h.IdentityFile, KnownHosts: h.KnownHostsFile, HostKey: h.HostKey, Jump: h.Jump,
		}
		if h.Address == provider.Local {
			to = provider.Access{Protocol: provider.Local}
		}
		list = append(list, hosts.Host{
			Name: h.Name, Access: to, Slots: h.Slots, Level: executor.Level(h.Level), Env: h.Environment, Temp: h.TempDir,
			Has: provider.Needs{OS: h.OS, Arch: h.Arch, CPUs: h.CPUs, Memory: h.Memory, Disk: h.Disk, GPUs: h.GPUs, Labels: h.Labels},
		})
	}
	return hosts.New(list, setup)
}

// Connect connects to the machines of providers. program finds a step-runner, see executor.Setup.
func Connect(program func(system, arch string) (string, error)) Connector {
	return func(ctx context.Context, to provider.Access) (host.Host, error) {
		return connect.Host(ctx, to, program)
	}
}

// FindInstalled notes which installed plugins the names of a configuration mean now: a plugin that was upgraded is a change of its entry.
func FindInstalled(c *config.Config) {
	for i := range c.Runners {
		if p := c.Runners[i].Plugin; p != nil {
			p.Installed = installed(plugin.ExecutorKind, plugin.Config{Name: p.Name, File: p.File, Folder: p.Folder})
		}
		p := c.Runners[i].Provider
		switch {
		case p == nil:
		case p.Name != "":
			p.Installed = installed(plugin.ProviderKind, plugin.Config{Name: p.Name, File: p.File, Folder: p.Folder})
		case p.Machinery != nil:
			p.Machinery.Installed = map[string]config.Installed{}
			for _, name := range p.Machinery.Plugins() {
				if _, known := builtin.Find(name); !known {
					p.Machinery.Installed[name] = installed(groupplugin.Kind, pluginhost.Config{Name: name})
				}
			}
		}
	}
}

func installed(kind *pluginhost.Kind, c pluginhost.Config) config.Installed {
	found, ok := kind.Installed(&c)
	if !ok {
		return config.Installed{}
	}
	return config.Installed{File: found.File(), SHA256: found.SHA256, Version: found.Version}
}
