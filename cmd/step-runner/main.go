// Command step-runner runs a list of steps, each with the least information it needs, and leaves a trace of what ran.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/doctor"
	"github.com/rungci/rung/cmd/step-runner/command/egress"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/inspect"
	"github.com/rungci/rung/cmd/step-runner/command/local"
	"github.com/rungci/rung/cmd/step-runner/command/lock"
	"github.com/rungci/rung/cmd/step-runner/command/replay"
	runcommands "github.com/rungci/rung/cmd/step-runner/command/run"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/cmd/step-runner/command/serve"
	"github.com/rungci/rung/cmd/step-runner/command/trust"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/tempfolder"
)

const (
	// gcPercent makes the garbage collector run twice as often as by default: what a run keeps is small, and it is in
	// environments where memory is for the steps.
	gcPercent = 50
	// gcStart makes the first collection come at a heap of 4 MiB. By gcPercent it came while the program was still starting, for a
	// heap that is nearly all kept.
	gcStart = 100
	// gcFirst makes the first collection of a process that belongs to a job come at a heap of 8 MiB, which most never reach: before
	// that, collections were half of what a short job took.
	gcFirst = 200
	// gcSpared counts as heap and takes no memory. After the first collection a small heap may grow by half of it, by gcPercent.
	gcSpared = 8 << 20
	// gcLocal is for a program that reads a large definition once and keeps nearly all that it makes of it. Its first collection comes
	// at a heap of 16 MiB.
	gcLocal = 400
)

// spared is never touched.
var spared atomic.Pointer[[gcSpared]byte]

// collect sets the garbage collector up for a command.
func collect(name string) {
	switch name {
	case "local":
		debug.SetGCPercent(gcLocal)
	case "serve", "builtin":
		debug.SetGCPercent(gcFirst)
		runtime.AddCleanup(new([64]byte), func(percent int) { // which the first collection calls
			spared.Store(new([gcSpared]byte))
			debug.SetGCPercent(percent)
		}, gcPercent)
	default:
		debug.SetGCPercent(gcStart)
		runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, gcPercent)
	}
}

func main() { os.Exit(run()) }

// run is main with an exit code, so that tests can call it.
func run() int {
	tempfolder.Settle()
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if os.Getenv("GOGC") == "" {
		collect(name)
	}
	if name != "builtin" { // which is a step, and found by its environment when its runner was killed
		_ = process.Conceal() // where it fails, processes of the same user can look
	}
	_ = process.EnableSubreaper() // where it fails, process groups must do; `doctor` says so
	if name == "builtin" {
		process.EndTogether() // the watchdog of its runner looks after it
	} else {
		process.EnableWatchdog("step-runner", serve.WatchdogName)
	}
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "--output-file") }) {
		go runner.Digest()
	}
	p := &command.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Env: os.Environ(), Version: command.Version(buildVersion),
	}
	return execute(context.Background(), p, os.Args[1:])
}

// execute runs the command that args name and returns its exit code.
func execute(ctx context.Context, p *command.Program, args []string) int {
	ran, err := serve.Quick(ctx, p, args)
	if !ran {
		root := rootCommand(p, args)
		root.SetArgs(args)
		root.SetIn(p.Stdin)
		root.SetOut(p.Stdout)
		root.SetErr(p.Stderr)
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exit.OK
	}
	code, text := exit.Report(err)
	fmt.Fprint(p.Stderr, text)
	return code
}

// group is a heading of the help text with the commands under it.
type group struct {
	title string
	names []string // and aliases
	build func() []*cobra.Command
}

// groups are all commands.
func groups(p *command.Program) []group {
	return []group{
		{"Run", []string{"local", "ci", "run", "replay"}, func() []*cobra.Command {
			return slices.Concat([]*cobra.Command{local.Command(p)}, runcommands.Commands(p), []*cobra.Command{replay.Command(p)})
		}},
		{"Inspect", []string{"trace", "describe", "check", "lint", "compile", "convert", "explain", "version", "doctor"}, func() []*cobra.Command {
			return append(inspect.Commands(p, trust.TraceCommands(p)), doctor.Command(p))
		}},
		{"Trust", []string{"lock", "sources", "cache", "sign", "verify", "oci"}, func() []*cobra.Command {
			return append([]*cobra.Command{lock.Command(p)}, trust.Commands(p)...)
		}},
		{"Serve", []string{"serve", "proxy", "bootstrap", "terminal", "builtin", "reach", "host", "become", "init", "place", "egress"}, func() []*cobra.Command {
			return append(serve.Commands(p), egress.Command())
		}},
	}
}

// rootCommand puts the groups of commands together. Where args begin with the name of a command, only its group is built:
// every job starts this program a few times, and a tree of all commands takes a millisecond.
func rootCommand(p *command.Program, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "step-runner",
		Short: "Run CI jobs and steps with least privilege, and leave a trace",
		Long: `step-runner runs CI jobs on this machine, and steps wherever jobs run: GitLab Steps, GitHub Actions, scripts and commands.
Each step gets only what it requests, and the run leaves a trace of exactly what ran.

` + exit.CodesHelp,
		Example: `  step-runner local --list
  step-runner local test
  step-runner run ./hello --input greeting="hello world"
  step-runner trace export --format html -o trace.html trace.json`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.Group(root)
	root.SetFlagErrorFunc(command.FlagError)
	command.VersionFlag(root, func() string { return command.VersionText(p, "step-runner") })
	all := groups(p)
	named := slices.IndexFunc(all, func(g group) bool { return len(args) > 0 && slices.Contains(g.names, args[0]) })
	for i, g := range all {
		if named < 0 || i == named {
			command.InGroup(root, g.title, g.build()...)
		}
	}
	if named < 0 {
		root.SetHelpCommandGroupID("inspect")
		root.SetCompletionCommandGroupID("inspect")
	}
	command.FitHelp(root)
	return root
}

// The help text lists commands in the order of their use, and each group in the order of its package.
func init() { cobra.EnableCommandSorting = false }

// buildVersion is set by the linker: -X main.buildVersion=v1.2.3.
var buildVersion string
