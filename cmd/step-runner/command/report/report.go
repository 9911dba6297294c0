// Package report prints what a command found wrong with a file, for people and for other programs.
package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/diag/rules"
)

// formats are the forms of problems.
var formats = []string{"text", "json", "sarif", "codequality"}

// Flags say how problems are reported.
type Flags struct {
	Format, Output string
	Strict         bool
}

// Declare adds them to a command.
func (o *Flags) Declare(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.Format, "format", "f", "text", "print `FORMAT`: "+strings.Join(formats, ", "))
	cmd.Flags().StringVarP(&o.Output, "output", "o", "", "write to `FILE`")
	cmd.Flags().BoolVar(&o.Strict, "strict", false, "treat warnings as errors")
	command.Complete(cmd, "format", formats...)
}

// Valid reports what is wrong with them.
func (o *Flags) Valid() error {
	return command.OneOf("--format", o.Format, formats...)
}

// Write writes the problems that the program called name found. The error is that of the exit code, where there are any that count.
func (o *Flags) Write(p *command.Program, name string, all []problems.Problem) error {
	var out bytes.Buffer
	var err error
	switch o.Format {
	case "json":
		err = problems.JSON(&out, all)
	case "sarif":
		err = problems.SARIF(&out, all, name, p.Version)
	case "codequality":
		err = problems.CodeQuality(&out, all)
	default:
		writeProblems(&out, all)
	}
	switch {
	case err != nil:
	case o.Output == "" && o.Format != formats[0]:
		_, err = p.Stdout.Write(cleantext.JSON(out.Bytes()))
	case o.Output == "":
		_, err = out.WriteTo(p.Stdout)
	default:
		err = p.WriteTo(o.Output, command.Readable, func(w io.Writer) error { _, err := out.WriteTo(w); return err })
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(p problems.Problem) bool { return !p.Note && (o.Strict || !p.Warning) }) {
		return exit.Shown(exit.Definition)
	}
	return nil
}

// writeProblems writes the problems for people, and how many there are.
func writeProblems(w io.Writer, all []problems.Problem) {
	errors, warnings, notes := 0, 0, 0
	for _, p := range all {
		text := p.Render()
		switch {
		case p.Note:
			notes++
			text = "note" + strings.TrimPrefix(text, "error")
		case p.Warning:
			warnings++
			text = "warning" + strings.TrimPrefix(text, "error")
		default:
			errors++
		}
		if p.Code != "" && p.Code != rules.Invalid {
			text += "rule: " + p.Code + "\n"
		}
		fmt.Fprintf(w, "%s\n", text)
	}
	fmt.Fprintf(w, "%s, %s", quantity.Count(errors, "error"), quantity.Count(warnings, "warning"))
	if notes > 0 {
		fmt.Fprintf(w, ", %s", quantity.Count(notes, "note"))
	}
	fmt.Fprintln(w)
}
