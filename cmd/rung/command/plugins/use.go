package plugins

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/pluginstore"
)

func useCommand(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "use PLUGIN",
		Short: "Choose an installed version, instead of the newest",
		Long: `use lets a version be used wherever the configuration names the plugin in a way that it meets, instead of the newest: to go back after an upgrade, for
instance. NAME:latest lets the newest be used again. rung run follows at its next reload (SIGHUP): jobs that run keep the version that they began with.

` + folderHelp + `

Exit codes: 0 success · 2 usage · 5 internal error · 6 not installed`,
		Example: `  rung plugin use aws:1.2.3
  rung plugin use aws:latest`,
		Args: command.Arguments(1, 1, "PLUGIN"),
	}
	folder := storeFlag(p, cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		r, ref, err := folder.find(args[0])
		if err != nil {
			return err
		}
		if ref.Digest == "" && ref.Constraint != pluginstore.Latest && !pluginstore.IsVersion(ref.Constraint) {
			return exit.Usage("%q is not a full version", ref.Constraint).Hinted("write NAME:1.2.3, or NAME:latest")
		}
		if ref.Constraint == pluginstore.Latest && ref.Digest == "" {
			if err := pluginstore.Unuse(r); err != nil {
				return err
			}
			p.Tell("the newest version of " + r.Full() + " is used")
			return nil
		}
		if err := pluginstore.Use(r); err != nil {
			return err
		}
		p.Tell("used from now on: " + described(r))
		return nil
	}
	return cmd
}

// find finds an installed plugin.
func (s *store) find(text string) (*pluginstore.Record, pluginstore.Reference, error) {
	ref, err := pluginstore.Parse(text)
	if err != nil {
		return nil, ref, exit.Usage("%v", err)
	}
	folder, err := s.path()
	if err != nil {
		return nil, ref, err
	}
	r, err := pluginstore.Find(folder, ref, "")
	if errors.Is(err, pluginstore.ErrNone) {
		return nil, ref, exit.Coded(exit.NotFound, "%s is not installed in %s", ref, folder).Hinted("see `rung plugin list`")
	} else if err != nil {
		return nil, ref, exit.Usage("%v", err)
	}
	return r, ref, nil
}

func removeCommand(p *command.Program) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "remove PLUGIN",
		Short: "Remove an installed plugin",
		Long: `remove deletes a version of a plugin from the plugin folder: the newest that the name means, or with --all every one that it means. A running manager keeps what it has
started.

` + folderHelp + `

Exit codes: 0 success · 2 usage · 5 internal error · 6 not installed`,
		Example: `  rung plugin remove aws:1.2.3
  rung plugin remove registry.example.com/ci/plugins/aws --all`,
		Args: command.Arguments(1, 1, "PLUGIN"),
	}
	folder := storeFlag(p, cmd)
	cmd.Flags().BoolVar(&all, "all", false, "remove every version that the name means")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		newest, ref, err := folder.find(args[0])
		if err != nil && !all {
			return err
		}
		gone := []*pluginstore.Record{newest}
		if all {
			path, err := folder.path()
			if err != nil {
				return err
			}
			installed, _ := pluginstore.List(path) // what is damaged cannot be removed by its name
			gone = slices.DeleteFunc(installed, func(r *pluginstore.Record) bool { return !r.Matches(ref) })
		}
		for _, r := range gone {
			if err := pluginstore.Remove(r); err != nil {
				return err
			}
			p.Tell("removed " + described(r))
		}
		if len(gone) == 0 {
			return err
		}
		return nil
	}
	return cmd
}
