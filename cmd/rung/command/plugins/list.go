package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/manager/config"
)

// item is a line of `plugin list`.
type item struct {
	Name      string    `json:"name"`
	Version   string    `json:"version,omitempty"`
	Kind      string    `json:"kind,omitempty"`
	Digest    string    `json:"digest,omitempty"`
	SHA256    string    `json:"sha256,omitempty"`
	Source    string    `json:"source,omitempty"`
	Platform  string    `json:"platform,omitempty"`
	Installed time.Time `json:"installed,omitzero"`
	File      string    `json:"file,omitempty"`
	// Use says that the version is used where several will do.
	Use bool `json:"use,omitempty"`
	// Runners are the entries of the configuration that use it.
	Runners []string `json:"runners,omitempty"`
	// Problem says what is wrong with it, or that it is not there.
	Problem string `json:"problem,omitempty"`
}

func listCommand(p *command.Program) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins that are installed or configured",
		Long: `list prints the plugins in the plugin folder and those that the configuration names, with their versions and digests, and the entries of the configuration that use
each. It computes the digest of each program: one that was changed after it was installed is named, and is not run.

` + folderHelp + `

Exit codes: 0 success · 2 usage · 3 invalid file · 5 internal error`,
		Example: `  rung plugin list
  rung plugin list --format json`,
		Args: command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	folder := storeFlag(p, cmd)
	cmd.Flags().StringVarP(&format, "format", "f", "text", "print `FORMAT`: text, json")
	command.Complete(cmd, "format", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := command.OneOf("--format", format, "text", "json"); err != nil {
			return err
		}
		path, err := folder.path()
		if err != nil {
			return err
		}
		installed, err := pluginstore.List(path)
		if err != nil && len(installed) == 0 {
			return exit.Coded(exit.System, "%v", err)
		} else if err != nil {
			p.Tell("warning: " + err.Error())
		}
		uses, err := configured(file)
		if err != nil && (cmd.Flags().Changed("config") || !errors.Is(err, fs.ErrNotExist)) {
			return err // and otherwise there is no configuration
		}
		items := listed(path, installed, uses)
		if format == "json" {
			return command.WriteJSON(p.Stdout, items)
		}
		return printItems(p.Stdout, items)
	}
	return cmd
}

// listed are the plugins of a folder and of a configuration.
func listed(folder string, installed []*pluginstore.Record, uses []config.PluginUse) []item {
	items := []item{}
	for _, r := range installed {
		one := item{
			Name: r.Full(), Version: r.Version, Kind: r.Kind, Digest: r.Digest, SHA256: r.SHA256, Source: r.Source, Platform: r.Platform, Installed: r.Installed, File: r.File(),
			Use: pluginstore.Used(folder, r.Full()) == r.Version,
		}
		if err := r.Check(); err != nil {
			one.Problem = err.Error()
		}
		items = append(items, one)
	}
	for _, use := range uses {
		items = noted(items, folder, use)
	}
	return items
}

// noted adds that an entry of the configuration uses a plugin.
func noted(items []item, folder string, use config.PluginUse) []item {
	kind := kindOf[use.Kind]
	c := pluginhost.Config{Name: use.Name, File: use.File, Folder: cmp.Or(use.Folder, folder), SHA256: use.SHA256}
	if found, ok := kind.Installed(&c); ok {
		for i := range items {
			if items[i].File == found.File() {
				items[i].Runners = append(items[i].Runners, use.Runner)
				return items
			}
		}
		return append(items, item{Name: found.Full(), Version: found.Version, Kind: use.Kind, Digest: found.Digest, SHA256: found.SHA256, Source: found.Source, File: found.File(), Runners: []string{use.Runner}})
	}
	one := item{Name: cmp.Or(use.Name, use.File), Kind: use.Kind, SHA256: use.SHA256, File: use.File, Runners: []string{use.Runner}}
	if c.Name == "" {
		c.Name = "plugin"
	}
	if file, err := kind.Find(&c); err != nil {
		one.Problem = err.Error()
	} else {
		one.File = file
	}
	if i := slices.IndexFunc(items, func(other item) bool { return other.Version == "" && other.Name == one.Name && other.Kind == one.Kind }); i >= 0 {
		items[i].Runners = append(items[i].Runners, use.Runner)
		return items
	}
	return append(items, one)
}

// shownDigest is how much of a digest people see, in characters.
const shownDigest = len("sha256:") + 12

func printItems(to io.Writer, items []item) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(to, "no plugins are installed or configured")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERSION\tDIGEST\tFROM\tUSED BY")
	for _, one := range items {
		version, from := cmp.Or(one.Version, "-"), cmp.Or(one.Source, one.File, "-")
		if strings.HasPrefix(version, "sha256-") {
			version = "-"
		}
		if one.Use {
			version += " (in use)"
		}
		digest := cmp.Or(one.Digest, "-")
		digest = digest[:min(len(digest), shownDigest)]
		if one.Version != "" && one.Source == "" {
			from = "a mirror"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cleantext.Line(one.Name), version, digest, cleantext.Line(from), cleantext.Line(cmp.Or(strings.Join(one.Runners, ", "), "-")))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, one := range items {
		if one.Problem != "" {
			fmt.Fprintf(to, "%s: %s\n", cleantext.Line(one.Name), cleantext.Line(one.Problem))
		}
	}
	return nil
}
