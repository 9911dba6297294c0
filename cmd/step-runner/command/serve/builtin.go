package serve

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/catalog/artifacts"
	"github.com/rungci/rung/steps/catalog/cache"
	"github.com/rungci/rung/steps/catalog/coverage"
	"github.com/rungci/rung/steps/catalog/docker"
	"github.com/rungci/rung/steps/catalog/dotenv"
	"github.com/rungci/rung/steps/catalog/git"
	"github.com/rungci/rung/steps/catalog/pages"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/release"
	"github.com/rungci/rung/steps/catalog/secrets"
	"github.com/rungci/rung/steps/catalog/ssh"
	"github.com/rungci/rung/steps/catalog/terminal"
)

// programs is the code of the built-in steps that are more than shell text.
var programs = map[string]program.Func{
	"artifacts/download": artifacts.Download,
	"artifacts/upload":   artifacts.Upload,
	"cache/restore":      cache.Restore,
	"cache/save":         cache.Save,
	"coverage":           coverage.Run,
	"docker/login":       docker.Login,
	"docker/run":         docker.Run,
	"git/checkout":       git.Checkout,
	"dotenv":             dotenv.Run,
	"pages":              pages.Run,
	"release":            release.Run,
	"secrets/vault":      secrets.Vault,
	"ssh/agent":          ssh.Agent,
	"terminal":           terminal.Run,
}

// commandPrograms are those that are no components: frontends compile to commands that call them with arguments of their own.
var commandPrograms = map[string]func(context.Context, *program.Call, []string) error{
	"docker/action": docker.Action,
	"docker/own":    func(_ context.Context, _ *program.Call, args []string) error { return docker.Own(args) },
}

// builtinCommand runs the code of a built-in step. Their definitions call it; nobody else needs to.
func (a *app) builtinCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "builtin NAME INPUTS OUTPUTS EXPORTS",
		Short:  "Run the code of a built-in step",
		Hidden: true,
		Args:   command.Arguments(4, 4, "the name of the step, and its files"),
		RunE:   func(cmd *cobra.Command, args []string) error { return a.builtin(cmd.Context(), args) },
	}
}

// WatchdogName is the argument with which this program is its own watchdog.
const WatchdogName = "watchdog"

// quick runs a built-in step, if args name one: jobs start several of them, which do without the tree of all commands. So does the watchdog,
// which removes what its program has left when it has ended.
func (a *app) quick(ctx context.Context, args []string) (ran bool, err error) {
	switch {
	case len(args) == 1 && args[0] == WatchdogName:
		process.Watchdog(a.Stdin)
		tempfolder.RemoveLeft()
		return true, nil
	case len(args) < 3 || args[0] != "builtin":
		return false, nil
	case commandPrograms[args[1]] != nil:
		return true, a.builtinCommandLine(ctx, commandPrograms[args[1]], args[2:])
	case len(args) == 5:
		return true, a.builtin(ctx, args[1:])
	}
	return false, nil
}

// builtin runs the code of a built-in step: its name, and the files of its inputs, outputs and exports.
func (a *app) builtin(ctx context.Context, args []string) error {
	run, ok := programs[args[0]]
	if !ok {
		return exit.Coded(exit.NotFound, "this program has no code for a built-in step %q", args[0])
	}
	inputs, err := takeInputs(args[1], args[2])
	if err != nil {
		return exit.Coded(exit.System, "reading the inputs: %v", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return exit.Coded(exit.System, "finding the work directory: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = run(ctx, &program.Call{
		Inputs: inputs, WorkDir: dir, Env: a.Env, Stdout: a.Stdout, Stderr: a.Stderr, OutputFile: args[2], ExportFile: args[3],
	})
	return builtinError(ctx, err)
}

// builtinCommandLine runs a program of commandPrograms.
func (a *app) builtinCommandLine(ctx context.Context, run func(context.Context, *program.Call, []string) error, args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return exit.Coded(exit.System, "finding the work directory: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return builtinError(ctx, run(ctx, &program.Call{WorkDir: dir, Env: a.Env, Stdout: a.Stdout, Stderr: a.Stderr}, args))
}

// takeInputs reads the inputs, and removes their file where the engine made it, beside that of the outputs: they can hold secrets, which what
// the step runs has no need to find.
func takeInputs(inputs, outputs string) ([]byte, error) {
	text, err := os.ReadFile(inputs)
	if err == nil && filepath.Dir(inputs) == filepath.Dir(outputs) {
		err = os.Remove(inputs)
	}
	return text, err
}

// builtinError shows the error of a built-in step. Its exit code is that of what the step ran, where that is why, or tells the engine whose fault it is.
func builtinError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exit.Shown(exit.Interrupted)
	}
	return exit.Coded(cmp.Or(program.ExitCode(err), exit.StepsFailed), "%v", err)
}
