package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/publish/bundle"
	"github.com/rungci/rung/steps/trace"
)

func (a *app) traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Look at the trace of a run, compare, sign and pack it",
		Long: `A trace is the record of one run, as run, ci and replay write it with --output-file. These commands read one, also in
a bundle.`,
		Example: `  step-runner trace show -v --logs trace.json
  step-runner trace diff yesterday.json today.json
  step-runner trace export --format html -o trace.html trace.json`,
	}
	group(cmd)
	cmd.AddCommand(a.traceShowCommand(), a.traceDiffCommand(), a.traceBundleCommand(), a.traceExportCommand(), a.traceJoinCommand(), a.traceSignCommand(), a.traceVerifyCommand())
	return cmd
}

func (a *app) traceShowCommand() *cobra.Command {
	var o trace.TextOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show TRACE",
		Short: "Print the tree of steps of a trace",
		Long: `show prints what ran, how it ended and how long it took. Of a run that was killed it shows what had happened by then: the
events are in TRACE.events until the run ends.

` + readerExitCodesHelp,
		Example: `  step-runner trace show trace.json
  step-runner trace show -v --logs trace.json`,
		Args: arguments(1, 1, "the trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := readTrace(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return trace.Export(a.stdout, t, "json")
			}
			o.Color = a.color(a.stdout)
			o.ASCII = asciiOnly(a.getenv)
			o.Width, _ = terminalSize(a.stdout)
			return trace.WriteText(a.stdout, t, o)
		},
	}
	f := cmd.Flags()
	f.CountVarP(&o.Verbose, "verbose", "v", "show inputs, outputs and exports; -vv commands and environment too")
	f.BoolVar(&o.Logs, "logs", false, "show the logs of the steps")
	f.BoolVar(&asJSON, "json", false, "print the trace as JSON")
	return cmd
}

func (a *app) traceExportCommand() *cobra.Command {
	var format, out string
	names := exportFormats()
	cmd := &cobra.Command{
		Use:   "export --format FORMAT TRACE",
		Short: "Write a trace in another format",
		Long:  "export writes a trace in another format:\n\n" + formatHelp() + "\n" + readerExitCodesHelp,
		Example: `  step-runner trace export --format html -o trace.html trace.json
  step-runner trace export --format junit trace.json > report.xml`,
		Args: arguments(1, 1, "the trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(names, format) {
				return usage("--format: %q is none of %s", format, strings.Join(names, ", "))
			}
			t, err := readTrace(args[0])
			if err != nil {
				return err
			}
			return a.writeTo(out, func(w io.Writer) error { return exportTrace(w, t, format) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&format, "format", "f", "text", "the `FORMAT`: "+strings.Join(names, ", "))
	f.StringVarP(&out, "output", "o", "-", "write to `FILE` instead of standard output")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// readTrace reads a trace, or that of a bundle.
func readTrace(path string) (*trace.Trace, error) {
	read := trace.Read
	if bundle.IsBundle(path) {
		read = func(path string) (*trace.Trace, error) {
			b, err := bundle.Open(path)
			if err != nil {
				return nil, err
			}
			return b.Trace()
		}
	}
	t, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, coded(exitDefinition, "%v", err)
	}
	return t, err
}

// writeTo gives write standard output, or a file that appears only when it is complete.
func (a *app) writeTo(path string, write func(io.Writer) error) error {
	if path == "-" || path == "" {
		return write(a.stdout)
	}
	if err := wholefile.Write(path, 0o600, write); err != nil {
		return coded(exitSystem, "writing %s: %v", path, err)
	}
	return nil
}

func formatHelp() string {
	var b strings.Builder
	for _, f := range allFormats() {
		fmt.Fprintf(&b, "  %-22s %s\n", f.Name, f.Summary)
	}
	return b.String()
}
