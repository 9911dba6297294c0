// Package explain explains keywords, and provides the JSON schemas of all files that people write.
package explain

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/reference"
)

type app struct{ *command.Program }

// Command is `explain`.
func Command(p *command.Program) *cobra.Command {
	a := &app{p}
	var asJSON, asSchema bool
	cmd := &cobra.Command{
		Use:   "explain [KEYWORD]",
		Short: "Explain a keyword of .gitlab-ci.yml",
		Long: `explain describes a keyword, its values, and how step-runner local treats it. Without a keyword it lists all of them. Part
of a name is enough: dotenv finds artifacts:reports:dotenv.

With --schema it prints a JSON schema, for editors. The name of a schema may follow:

` + schemaNames() + `
In VS Code, set "yaml.schemas" to {"FILE": ".gitlab-ci.yml"}, or begin a YAML file with the comment
"# yaml-language-server: $schema=FILE" and a TOML file with "#:schema FILE".

` + exit.ReaderCodesHelp,
		Example: `  step-runner explain rules:changes
  step-runner explain --schema >gitlab-ci.schema.json
  step-runner explain --schema steps >steps.schema.json`,
		Args: command.Arguments(0, 1, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if asSchema {
				return a.printSchema(append(args, defaultSchema)[0])
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
		if asSchema {
			for _, known := range schemas {
				if len(args) == 0 && strings.HasPrefix(known.name, typed) {
					found = append(found, known.name+"\t"+known.file)
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := reference.All()
		for _, k := range all {
			if err == nil && len(args) == 0 && strings.HasPrefix(k.Name, typed) {
				found = append(found, k.Name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.Flags().BoolVar(&asSchema, "schema", false, "print a JSON schema (default: that of .gitlab-ci.yml)")
	return cmd
}

// schemaNames lists the schemas, one a line.
func schemaNames() string {
	var b strings.Builder
	for _, known := range schemas {
		b.WriteString("  " + known.name + strings.Repeat(" ", 11-len(known.name)) + known.file + "\n")
	}
	return b.String()
}

// printSchema prints the schema with a name.
func (a *app) printSchema(name string) error {
	var names []string
	for _, known := range schemas {
		names = append(names, known.name)
	}
	i := slices.Index(names, name)
	if i < 0 {
		missing := exit.Coded(exit.NotFound, "there is no schema %q", name)
		if near := diag.Suggest(name, names); near != "" {
			return missing.Hinted("did you mean %s?", near)
		}
		return missing.Hinted("the schemas are %s", strings.Join(names, ", "))
	}
	text, err := schemas[i].text()
	if err == nil {
		_, err = a.Stdout.Write(text)
	}
	return err
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
