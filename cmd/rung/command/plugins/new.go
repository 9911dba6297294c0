package plugins

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/sdk/scaffold"
)

func newCommand(p *command.Program) *cobra.Command {
	var language, kind, folder string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a new plugin",
		Long: `new writes a plugin that passes ` + "`rung plugin test`" + `, into a folder of its own: the program, and a README with the commands that build, try and publish it. The
machines of a new provider and of a new instance group are made up: write the calls of your cloud in their place.

Exit codes: 0 success · 2 usage · 5 internal error`,
		Example: `  rung plugin new --lang go --kind group mycloud
  rung plugin new --lang python --kind executor box`,
		Args: command.Arguments(1, 1, "NAME"),
	}
	cmd.Flags().StringVar(&language, "lang", "go", "write it in `LANGUAGE`: go, python")
	command.Complete(cmd, "lang", scaffold.Languages...)
	cmd.Flags().StringVar(&kind, "kind", "", "write a plugin of this `KIND`: executor, provider, group (the default)")
	command.Complete(cmd, "kind", scaffold.Kinds...)
	cmd.Flags().StringVarP(&folder, "output-dir", "o", "", "write it into the folder `DIR` (default: KIND-plugin-NAME)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		named, name := pluginstore.Divide(args[0])
		if kind != "" && named != "" && kind != named {
			return exit.Usage("%q is the name of a plugin of the kind %s, and --kind is %s", args[0], named, kind)
		}
		kind = cmp.Or(kind, named, "group")
		if err := errors.Join(command.OneOf("--lang", language, scaffold.Languages...), command.OneOf("--kind", kind, scaffold.Kinds...)); err != nil {
			return err
		}
		plugin := &scaffold.Plugin{Name: name, Kind: kind, Language: language, Version: moduleVersion(p.Version)}
		to := cmp.Or(folder, plugin.Program())
		files, err := plugin.Write(to)
		switch {
		case errors.Is(err, scaffold.ErrName), errors.Is(err, fs.ErrExist):
			return exit.Usage("%v", err)
		case err != nil:
			return err
		}
		p.Tell("wrote " + strings.Join(files, ", ") + " in " + to + "; its README.md says how to build and try it")
		return nil
	}
	return cmd
}

// moduleVersion is that of the module of this program, as a plugin requires it; empty where it is not a release.
func moduleVersion(version string) string {
	if strings.HasPrefix(version, "v") && pluginstore.IsVersion(version) {
		return version
	}
	return ""
}
