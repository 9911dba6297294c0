package supplies

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/builtin"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
)

// Open opens the fleets of entries of the configuration, and other providers. shared is the state that managers share; nil: none. log is for what happens; observe is
// told what happens in fleets; nil: nobody is.
func Open(p *command.Program, shared *sharedstate.State, connect Connector, log *slog.Logger, observe func(store.Entry)) Provider {
	others := openProvider(p)
	return func(ctx context.Context, r *config.Runner, setup provider.Setup) (provider.Provider, error) {
		m := r.Provider.Machinery
		if m == nil {
			return others(ctx, r, setup)
		}
		log := log.With("runner", r.Name)
		engine := ""
		if r.Docker != nil {
			engine = r.Docker.Host
		}
		opened, err := fleet.Open(ctx, fleet.Options{
			Name: r.Name, Engine: engine, Machinery: m, Setup: setup, Shared: shared, Connect: connect, Log: log, Observe: observe,
			Group: func(_ context.Context, name string, options map[string]any) (group.Basic, error) {
				return openGroup(p, m, name, options, log)
			},
		})
		if err != nil {
			return nil, err
		}
		return opened, nil
	}
}

// openGroup makes the instance group of a name: one that is part of this program, or a plugin.
func openGroup(p *command.Program, m *config.Machinery, name string, options map[string]any, log *slog.Logger) (group.Basic, error) {
	text, err := plugin.Options(options)
	if err != nil {
		return nil, fmt.Errorf("plugin_config cannot be JSON, which plugins read: %w", err)
	}
	if kind, known := builtin.Find(name); known {
		return kind.New(text)
	}
	return groupplugin.New(groupplugin.Config{Config: pluginhost.Config{Name: name, Options: text, Env: p.Variables(m.Fleet.PluginEnvironment), Log: log}}), nil
}
