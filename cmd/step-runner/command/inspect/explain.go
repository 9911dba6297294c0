package inspect

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/frontend/gitlabci/reference"
)

func (a *app) explainCommand() *cobra.Command {
	var asJSON, schema bool
	cmd := &cobra.Command{
		Use:   "explain [KEYWORD]",
		Short: "Explain a keyword of .gitlab-ci.yml",
		Long: `explain describes a keyword, its values, and how step-runner local treats it. Without a keyword it lists all of them. Part
of a name is enough: dotenv finds artifacts:reports:dotenv.

With --schema it prints the JSON schema of the file, for editors. In VS Code, set "yaml.schemas" to {"FILE":
".gitlab-ci.yml"}.

` + exit.ReaderCodesHelp,
		Example: `  step-runner explain rules:changes
  step-runner explain --schema >gitlab-ci.schema.json`,
		Args: command.Arguments(0, 1, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				text, err := reference.Schema()
				if err == nil {
					_, err = a.Stdout.Write(text)
				}
				return err
			}
			all, err := reference.All()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return a.explainAll(all, asJSON)
			}
			keyword, below, near := reference.Find(all, args[0])
			if keyword == nil {
				missing := exit.Coded(exit.NotFound, "there is no keyword %q", args[0])
				if len(near) > 0 {
					return missing.Hinted("did you mean %s?", strings.Join(near, ", "))
				}
				return missing.Hinted("`step-runner explain` lists all")
			}
			if asJSON {
				return command.WriteJSON(a.Stdout, append([]reference.Keyword{*keyword}, below...))
			}
			_, err = io.WriteString(a.Stdout, reference.Explain(keyword, below))
			return err
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) (found []string, _ cobra.ShellCompDirective) {
		all, err := reference.All()
		for _, k := range all {
			if err == nil && len(args) == 0 && strings.HasPrefix(k.Name, typed) {
				found = append(found, k.Name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON schema of the file")
	return cmd
}

// explainAll lists the keywords, one a line.
func (a *app) explainAll(all []reference.Keyword, asJSON bool) error {
	if asJSON {
		return command.WriteJSON(a.Stdout, all)
	}
	var b strings.Builder
	width := 0
	for _, k := range all {
		width = max(width, len(k.Name))
	}
	for _, k := range all {
		b.WriteString(k.Name + strings.Repeat(" ", width-len(k.Name)+2) + k.Text + "\n")
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
