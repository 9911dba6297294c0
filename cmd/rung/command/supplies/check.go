package supplies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/builtin"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
)

// CheckLevel says why no job of an entry can have a level, whatever its machine is; nil if that depends on the machine.
func CheckLevel(r *config.Runner, level executor.Level) error {
	p := r.Provider
	_, known := levels.Find(level)
	switch {
	case known || !level.Known(): // which a plugin or a driver has
		return nil
	case level != executor.Instance:
		return fmt.Errorf("this program has %s", strings.Join(levels.Names(), ", "))
	case p == nil:
		return errors.New("a job has a machine of its own only in a fleet ([runners.autoscaler], [runners.machine]) or with a provider ([runners.provider])")
	case len(p.Hosts) > 0:
		return errors.New("no host of [[runners.provider.hosts]] is made for one job; write executor = \"shell\" or \"docker\"")
	case p.Machinery != nil && !p.Machinery.Fresh():
		return errors.New("its machines run more than one job each; write max_use_count = 1 (MaxBuilds in [runners.machine])")
	}
	return nil
}

// Check says what is wrong with where an entry has its machines and its plugins from, as far as that is known without them: options of instance groups that are part of
// this program, with places in the configuration; what is not on this machine, as *config.KeyError; and volumes where no group has some. Nothing is made or started.
func Check(c *config.Config, r *config.Runner) (wrong []error) {
	missing := func(key string, kind *pluginhost.Kind, of pluginhost.Config) {
		if err := there(kind, of); err != nil {
			wrong = append(wrong, &config.KeyError{Key: key, Err: err})
		}
	}
	if p := r.Plugin; p != nil && r.Executor == config.PluginExecutor && p.Name+p.File != "" {
		missing(named("plugin", p.File), plugin.ExecutorKind, pluginhost.Config{Name: p.Name, File: p.File, Folder: p.Folder})
	}
	p := r.Provider
	switch {
	case p == nil:
	case p.Machinery != nil:
		return checkGroups(c, r)
	case p.Name != "" && len(p.Hosts) == 0:
		missing(named("provider", p.File), plugin.ProviderKind, pluginhost.Config{Name: p.Name, File: p.File, Folder: p.Folder})
	}
	return wrong
}

// named is the key of a table that names its plugin.
func named(table, file string) string {
	if file != "" {
		return table + ".file"
	}
	return table + ".name"
}

// there says that a plugin is not on this machine.
func there(kind *pluginhost.Kind, of pluginhost.Config) error {
	file, err := kind.Find(&of)
	if err == nil {
		_, err = os.Stat(file)
	}
	return err
}

// checkGroups is Check for a fleet.
func checkGroups(c *config.Config, r *config.Runner) (wrong []error) {
	m := r.Provider.Machinery
	if a := m.Autoscaler; a != nil && a.Connector.KeyPath != "" {
		if _, err := os.ReadFile(a.Connector.KeyPath); err != nil {
			wrong = append(wrong, &config.KeyError{Key: "autoscaler.connector_config.key_path", Err: err})
		}
	}
	told := map[string]bool{}
	volumes := false // there may be some
	var volumeless error
	for _, from := range fleet.Sources(m) {
		kind, known := builtin.Find(from.Plugin)
		if from.Plugin == "" { // which has been said
			volumes = true
			continue
		}
		if !known {
			volumes = true // which only the plugin knows
			if err := there(groupplugin.Kind, pluginhost.Config{Name: from.Plugin}); err != nil && !told[from.Key] {
				wrong = append(wrong, &config.KeyError{Key: from.Key, Err: err})
			}
			told[from.Key] = true
			continue
		}
		made, err := makeGroup(kind, &from)
		if err != nil {
			if !told[from.Table] {
				wrong = append(wrong, c.Placed(r, from.Table, err))
			}
			told[from.Table] = true
			continue
		}
		if err := lacks(kind, &from); err != nil && !told[from.Key] {
			wrong = append(wrong, &config.KeyError{Key: from.Key, Err: err})
		}
		told[from.Key] = true
		if err := from.CheckShape(context.Background(), made); err != nil {
			wrong = append(wrong, c.Placed(r, config.FleetOptions, err))
		}
		if err := from.CheckVolumes(m, group.NoVolumes(made)); err == nil {
			volumes = true
		} else if volumeless == nil {
			volumeless = c.Placed(r, from.Table, err)
		}
	}
	if !volumes && volumeless != nil {
		wrong = append(wrong, volumeless)
	}
	return wrong
}

// makeGroup makes an instance group that is part of this program, to see what is wrong with its options.
func makeGroup(kind builtin.Kind, from *fleet.Source) (group.Basic, error) {
	text, err := plugin.Options(from.Options)
	if err != nil {
		return nil, from.WrongOptions(err)
	}
	made, err := kind.New(text)
	if err != nil {
		return nil, from.WrongOptions(err)
	}
	return made, nil
}

// lacks says what an instance group of this program needs that is not on this machine.
func lacks(kind builtin.Kind, from *fleet.Source) error {
	text, err := plugin.Options(from.Options)
	if err != nil {
		return err
	}
	return kind.Lacks(text)
}

// Try starts the plugins that an entry has its machines from, holds their options against their schemas, with places in the configuration, and ends them. None is opened: no
// cloud is asked for anything, and nothing is made there. unknown are the plugins without a schema. Those that are not on this machine are left to Check.
func Try(ctx context.Context, p *command.Program, c *config.Config, r *config.Runner) (unknown []string, wrong []error) {
	from := r.Provider
	log := slog.Default().With("runner", r.Name)
	if from.Machinery == nil {
		of := pluginhost.Config{Name: from.Name, File: from.File, Folder: from.Folder, SHA256: from.SHA256, Args: from.Args, Env: p.Variables(from.Environment), Log: log}
		if len(from.Hosts) > 0 || there(plugin.ProviderKind, of) != nil {
			return nil, nil
		}
		var err error
		if of.Options, err = plugin.Options(from.Options); err == nil {
			err = plugin.CheckProvider(ctx, &of)
		}
		if err != nil {
			wrong = append(wrong, c.Placed(r, config.ProviderOptions, err))
		}
		return nil, wrong
	}
	tried := map[string]bool{}
	for _, source := range fleet.Sources(from.Machinery) {
		_, own := builtin.Find(source.Plugin)
		of := groupplugin.Config{Config: pluginhost.Config{Name: source.Plugin, Env: p.Variables(from.Machinery.Fleet.PluginEnvironment), Log: log}}
		if own || tried[source.Plugin+" "+source.Table] || there(groupplugin.Kind, of.Config) != nil {
			continue
		}
		tried[source.Plugin+" "+source.Table] = true
		checked := true
		var err error
		if of.Options, err = plugin.Options(source.Options); err == nil {
			checked, err = groupplugin.Check(ctx, &of)
		}
		switch {
		case err != nil:
			wrong = append(wrong, c.Placed(r, source.Table, err))
		case !checked:
			unknown = append(unknown, source.Plugin)
		}
	}
	return unknown, wrong
}
