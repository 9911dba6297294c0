package trust

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/federation"
)

func (a *app) sourcesCommand() *cobra.Command {
	var from components.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sources [REF]",
		Short: "Show how sources.toml resolves a reference",
		Long: `sources prints which sources.toml files are in effect. With REF it prints where that reference leads: the address after
mapping, whose credentials would be used (never the credentials), and the required signatures. Nothing is fetched.

` + exit.ReaderCodesHelp,
		Example: `  step-runner sources
  step-runner sources gitlab.com/group/steps/-/hello@v1`,
		Args: command.Arguments(0, 1, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return exit.Coded(exit.System, "finding the current folder: %v", err)
			}
			rules, err := from.Rules(a.Program, dir)
			if err != nil {
				return err
			}
			out := sourcesOutput{Files: append([]string{}, rules.Files()...)}
			if len(args) == 1 {
				if out.Reference, err = explain(rules, args[0], dir); err != nil {
					return err
				}
			}
			if asJSON {
				return command.WriteJSON(a.Stdout, out)
			}
			return a.printSources(out)
		},
	}
	cmd.Flags().StringVar(&from.Sources, "sources", "", "read `FILE` (default: rung/sources.toml in your configuration folder, and .rung/sources.toml in the project)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// sourcesOutput is what the command prints.
type sourcesOutput struct {
	Files     []string                `json:"files"`
	Reference *federation.Explanation `json:"reference,omitempty"`
}

func explain(rules *federation.Config, arg, dir string) (*federation.Explanation, error) {
	ref, err := gitlabsteps.ParseStaticReference(arg, diag.Span{})
	if err != nil {
		return nil, exit.Coded(exit.BadUsage, "%q is not a reference: %v", arg, err).Hinted("write it as in `step:` or `uses:`, such as host/project@revision")
	}
	at := source.LocationOf(ref, dir, dir)
	if at == nil || at.Kind == plan.RefBuiltin {
		return nil, exit.Usage("%s is not fetched from anywhere: it is local, or part of step-runner", arg)
	}
	return rules.Explain(at)
}

func (a *app) printSources(out sourcesOutput) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	row := func(label, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", label, value)
		}
	}
	for _, file := range out.Files {
		row("file", file)
	}
	if len(out.Files) == 0 {
		row("files", "none: every reference is fetched from where it points")
	}
	if x := out.Reference; x != nil {
		row("name", x.Name)
		row("leads to", x.URL)
		row("mapped by", x.MappedBy)
		row("credentials", x.Credentials)
		row("SSH key", x.SSHKey)
		row("proxy", x.Proxy)
		row("plain HTTP", yes(x.PlainHTTP))
		row("submodules", yes(x.Submodules))
		row("trusted for", x.Refresh)
		row("denied", x.Denied)
		row("must be pinned", yes(x.Pinned))
		for _, s := range x.SignedBy {
			row("must be signed", fmt.Sprintf("by %d of %s (%s)", s.Threshold, strings.Join(s.Keys, ", "), s.By))
		}
	}
	return w.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
