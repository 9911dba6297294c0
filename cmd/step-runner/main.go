// Command step-runner runs a list of steps, each with the least information it needs, and leaves a trace of what ran.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/ui"
)

func main() { os.Exit(run()) }

// gcPercent makes the garbage collector run twice as often as by default: what a run keeps is small, and it stands in
// environments where memory is for the steps.
const gcPercent = 50

// run is main with an exit code, so that tests can call it.
func run() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	_ = process.EnableSubreaper() // where it fails, process groups must do; `doctor` says so
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "--output-file") }) {
		go programDigest()
	}
	a := &app{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		env:    os.Environ(),
	}
	return a.main(context.Background(), os.Args[1:])
}

// app is what the commands share: the world around the program.
type app struct {
	stdin          io.Reader
	stdout, stderr *os.File
	getenv         func(string) string
	env            []string
}

// main runs the command that args name and returns its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.execute(ctx, args)
	if err == nil {
		return exitOK
	}
	code, text := report(err)
	fmt.Fprint(a.stderr, text)
	return code
}

// execute runs the command that args name. Built-in steps, which jobs start several of, do without the tree of all commands.
func (a *app) execute(ctx context.Context, args []string) error {
	if len(args) > 2 && args[0] == "builtin" && commandPrograms[args[1]] != nil {
		return a.builtinCommandLine(ctx, commandPrograms[args[1]], args[2:])
	}
	if len(args) == 5 && args[0] == "builtin" {
		return a.builtin(ctx, args[1:])
	}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return root.ExecuteContext(ctx)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "step-runner",
		Short: "Run a list of steps with least privilege and leave a trace",
		Long: `step-runner runs a list of steps: GitLab Steps, scripts and commands. Each step gets the least information it needs, and
the run leaves a trace that says exactly what ran.

` + exitCodesHelp,
		Example: `  STEPS="$(cat steps.yml)" step-runner ci --output-file trace.json
  step-runner run ./hello --input greeting="hello world"
  step-runner trace export --format html -o trace.html trace.json`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: false},
	}
	group(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v", err).hinted("see `%s --help`", cmd.CommandPath())
	})
	root.AddCommand(
		a.ciCommand(),
		a.runCommand(),
		a.localCommand(),
		a.compileCommand(),
		a.replayCommand(),
		a.describeCommand(),
		a.lintCommand(),
		a.convertCommand(),
		a.explainCommand(),
		a.lockCommand(),
		a.sourcesCommand(),
		a.cacheCommand(),
		a.traceCommand(),
		a.signCommand(),
		a.verifyCommand(),
		a.ociCommand(),
		a.serveCommand(),
		a.proxyCommand(),
		a.bootstrapCommand(),
		a.builtinCommand(),
		a.terminalCommand(),
		a.reachCommand(),
		a.hostCommand(),
		a.doctorCommand(),
		a.versionCommand(),
	)
	return root
}

// suggestionDistance is how many letters a mistyped command may differ by to be suggested.
const suggestionDistance = 2

// group makes cmd one that holds others: alone it prints its help, and a word that is none of them is a usage error.
func group(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = suggestionDistance
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := usage("unknown command %q for %q", args[0], cmd.CommandPath())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return err.hinted("did you mean `%s %s`?", cmd.CommandPath(), near[0])
		}
		return err.hinted("see `%s --help`", cmd.CommandPath())
	}
}

// arguments checks the number of arguments; cobra's own checks are not usage errors to us.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		if len(args) < least {
			return usage("%s is missing", what).hinted("see `%s --help`", cmd.CommandPath())
		}
		return usage("too many arguments: %q", strings.Join(args[most:], " ")).hinted("see `%s --help`", cmd.CommandPath())
	}
}

// color reports whether text for f should be coloured.
func (a *app) color(f *os.File) bool { return ui.ColorWanted(a.getenv, "auto", isTerminal(f)) }
