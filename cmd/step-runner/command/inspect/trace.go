package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/steps/trace"
)

func (a *app) traceCommand(more []*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Show, compare, export, sign and bundle traces",
		Long: `A trace is the record of a run. run, ci, local and replay write one with --output-file. These commands also read the trace
in a bundle.`,
		Example: `  step-runner trace show -v --logs trace.json
  step-runner trace diff yesterday.json today.json
  step-runner trace export --format html -o trace.html trace.json`,
	}
	command.Group(cmd)
	cmd.AddCommand(a.traceShowCommand(), a.traceDiffCommand(), a.traceExportCommand(), a.traceJoinCommand())
	cmd.AddCommand(more...)
	return cmd
}

func (a *app) traceShowCommand() *cobra.Command {
	var o trace.TextOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show TRACE",
		Short: "Print the steps of a trace",
		Long: `show prints what ran, how it ended and how long it took. For a run that was killed it shows what happened until then, from
TRACE.events.

` + exit.ReaderCodesHelp,
		Example: `  step-runner trace show trace.json
  step-runner trace show -v --logs trace.json`,
		Args: command.Arguments(1, 1, "the trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := tracefile.Read(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return trace.Export(screen.JSON(a.Stdout), "json", t)
			}
			o.Color = screen.Color(a.Program, a.Stdout)
			o.ASCII = screen.ASCIIOnly(a.Getenv)
			if o.Verbose < 2 && screen.IsTerminal(a.Stdout) { // else all of it
				o.Width, _ = screen.Size(a.Stdout)
			}
			if err := trace.WriteText(a.Stdout, t, o); err != nil || o.Verbose < 2 {
				return err
			}
			return tracefile.WriteWould(a.Stdout, t, nil)
		},
	}
	f := cmd.Flags()
	f.CountVarP(&o.Verbose, "verbose", "v", "show inputs, outputs and exports; -vv also commands, environment and what a replay would run, uncut")
	f.BoolVar(&o.Logs, "logs", false, "show the logs of the steps")
	f.BoolVar(&asJSON, "json", false, "print the trace as JSON")
	return cmd
}

func (a *app) traceExportCommand() *cobra.Command {
	var format, out string
	names := tracefile.FormatNames()
	cmd := &cobra.Command{
		Use:   "export --format FORMAT TRACE...",
		Short: "Write a trace in another format",
		Long: "export writes a trace in another format:\n\n" + formatHelp() +
			"\n" + command.Wrap("Several traces are the jobs of a pipeline. "+strings.Join(tracefile.FormatsOfSeveral(), ", ")+" take them; html makes one page of graph, timeline and logs of all jobs.", command.HelpWidth) + "\n\n" + exit.ReaderCodesHelp,
		Example: `  step-runner trace export --format html -o trace.html trace.json
  step-runner trace export --format html -o pipeline.html traces/*.json
  step-runner trace export --format junit traces/*.json > report.xml`,
		Args: command.Arguments(1, -1, "the trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := command.OneOf("--format", format, names...); err != nil {
				return err
			}
			if several := tracefile.FormatsOfSeveral(); len(args) > 1 && !slices.Contains(several, format) {
				return exit.Usage("--format %s takes one trace, not %d", format, len(args)).Hinted("several traces can be exported as %s", strings.Join(several, ", "))
			}
			var traces []*trace.Trace
			for _, arg := range args {
				t, err := tracefile.Read(arg)
				if err != nil {
					return err
				}
				traces = append(traces, t)
			}
			return a.WriteTo(out, command.Private, func(w io.Writer) error {
				if w == a.Stdout && tracefile.IsJSON(format) {
					w = screen.JSON(a.Stdout)
				}
				if len(traces) > 1 {
					return trace.Export(w, format, traces...)
				}
				return tracefile.Export(w, traces[0], format)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&format, "format", "f", "text", "the `FORMAT`: "+strings.Join(names, ", "))
	f.StringVarP(&out, "output", "o", "-", "write to `FILE` instead of standard output")
	command.Complete(cmd, "format", names...)
	return cmd
}

// formatColumn is the width of the names of formats in the help text.
const formatColumn = 18

func formatHelp() string {
	var b strings.Builder
	for _, f := range tracefile.Formats() {
		text := command.Wrap(f.Summary, command.HelpWidth-formatColumn-3)
		fmt.Fprintf(&b, "  %-*s %s\n", formatColumn, f.Name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", formatColumn+3)))
	}
	return b.String()
}
