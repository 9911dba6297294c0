// Package plugins holds the commands about plugins.
package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/plugin/plugintest"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	grouptrial "github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/plugintrial"
)

// childName is the hidden command that runs the suite.
const childName = "test-child"

// Command makes the command `plugin`.
func Command(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "Install, publish and try plugins"}
	command.Group(cmd)
	child := &cobra.Command{Use: childName, Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		if code, ok := grouptrial.Child(); ok {
			return exit.Shown(code)
		}
		return exit.Shown(plugintest.Child([]string{"plugin", childName}))
	}}
	cmd.AddCommand(installCommand(p), listCommand(p), useCommand(p), removeCommand(p), loginCommand(p), publishCommand(p), newCommand(p), testCommand(p), child)
	return cmd
}

// trial are the flags of test.
type trial struct {
	options, stepRunner, image, only string
	environment                      []string
	verbose, nothing                 bool
	paid                             paidFlags
}

func testCommand(p *command.Program) *cobra.Command {
	t := &trial{}
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Try a plugin with the suite that its kind must pass",
		Long: `test starts a plugin and tries all that a runner expects of one. Each case is a sentence; for one that does not hold, what was found instead follows.

Of an executor plugin: that steps run and can be cancelled, that files come and go as they are, that jobs do not see each other's, what is left when the
plugin or the runner is killed, and some forty things more. It takes about a minute. Cases about what the plugin says that it cannot do pass. Jobs are
made in a folder of their own in the one for temporary files, and nothing else on this machine is touched.

Of a provider plugin: that places are reserved, kept and given back, that no call that is repeated, cancelled or late takes one more, that machines
outlive the processes of the plugin and the runner, and some twenty things more. It makes about 70 machines, a few at a time, and nobody connects to
them. With the options that it is given it must have room for 2 to 64 jobs, and machines that take less than 30 seconds.

Of an instance-group plugin: that a repeated request creates no second instance, that instances run, can be reached and go away, that they can be deleted
twice, that they outlive the process of the plugin, and some fifteen things more. It creates about 20 instances, at most two at a time, and connects to
none. With the options that it is given it must have room for 2 instances. In a cloud, they cost money: begin with --dry, then use --max-cost. Give it
a group that nobody else uses.

A plugin gets few variables of the environment, here as from a runner. --environment gives it more, as plugin_environment of [runners.fleet] does: credentials of a cloud, say.

With --max-cost, no request is made that could cost more in all, by the prices and the billing of the plugin's offers or of --price. Each is written to a
ledger before it is made. However the test ends, what is left is ended; if it is killed, the next test or --clean does that, with the same options. The
last line says what was spent at most, and that nothing is left.

Exit codes: 0 all of it holds · 1 something does not, or is left · 2 usage · 5 the plugin does not start · 6 not found`,
		Example: `  rung plugin test ./executor-plugin-wrap --options '{"command": ["nice"]}'
  rung plugin test ./executor-plugin-box --image alpine:3 --only sweep
  rung plugin test ./group-plugin-aws --options "$(cat aws.json)" --dry
  rung plugin test ./group-plugin-aws --options "$(cat aws.json)" --max-cost 1.5
  rung plugin test ./provider-plugin-command --options "$(cat options.json)"
  rung plugin test ./group-plugin-static --options "$(cat hosts.json)"`,
		Args: command.Arguments(1, 1, "FILE"),
	}
	cmd.Flags().StringVar(&t.options, "options", "", "give the plugin these options, as `JSON`")
	cmd.Flags().StringArrayVar(&t.environment, "environment", nil, "give the plugin this variable, `NAME[=VALUE]`, beside PATH, HOME and the like; may be repeated. NAME alone is for the value that it has here")
	cmd.Flags().StringVar(&t.image, "image", "", "run jobs in this `IMAGE`, which has a POSIX shell")
	cmd.Flags().StringVar(&t.only, "only", "", "try only cases that have this `TEXT` in them")
	cmd.Flags().StringVar(&t.stepRunner, "step-runner", "", "run jobs with this step-runner `FILE`, which is else the one beside rung")
	cmd.Flags().BoolVar(&t.nothing, "dry", false, "try only what makes no machine and runs no job: that it opens, lists and refuses wrong options")
	cmd.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "show what the plugin writes to its log")
	t.paid.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if t.options != "" && !json.Valid([]byte(t.options)) {
			return exit.Usage("--options must be JSON, such as '{\"command\": [\"nice\"]}'")
		}
		if err := cmp.Or(t.checkEnvironment(p), t.paid.check(cmd, t.nothing)); err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // nothing reads it; without it the death of the output's reader would leave machines
		err := t.run(ctx, p, args[0])
		if ctx.Err() != nil {
			return exit.Coded(exit.Interrupted, "the test was stopped: %v", context.Cause(ctx))
		}
		return err
	}
	return cmd
}

// checkEnvironment refuses what names no variable, or one that has no value: the plugin would blame something else.
func (t *trial) checkEnvironment(p *command.Program) error {
	for _, variable := range t.environment {
		name, _, valued := strings.Cut(variable, "=")
		switch {
		case name == "":
			return exit.Usage("--environment must be NAME or NAME=VALUE, such as AWS_PROFILE=ci, not %q", variable)
		case !valued && p.Getenv(name) == "":
			return exit.Usage("--environment %s: the variable is not set; export it, or use %[1]s=VALUE", name)
		}
	}
	return nil
}

// run tries the plugin of a file.
func (t *trial) run(ctx context.Context, p *command.Program, file string) error {
	config := pluginhost.Config{Name: nameOf(file), File: file, Env: p.Variables(t.environment), Log: slog.New(slog.DiscardHandler)}
	if t.options != "" {
		config.Options = json.RawMessage(t.options)
	}
	var log io.Writer
	if t.verbose {
		config.Log, log = slog.New(slog.NewTextHandler(p.Stderr, nil)), p.Stderr
	}
	kind, err := pluginhost.Serves(ctx, config, kinds...)
	if err != nil {
		if _, missing := os.Stat(file); errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
		return exit.Coded(exit.System, "%v", err)
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	again, each := []string{own, "plugin", childName}, func(r plugintrial.Result) { show(p.Stdout, r) }
	var passed bool
	if kind == plugin.ExecutorKind {
		if t.stepRunner, err = findStepRunner(t.stepRunner); err != nil {
			return err
		}
	}
	ofGroup := grouptrial.Trial{Plugin: groupplugin.Config{Config: config}, Only: t.only, Log: log}
	switch {
	case kind == nil:
		err = fmt.Errorf("the plugin %q serves none of the contracts of executors, providers and instance groups", config.Name)
	case t.paid.set() && kind != groupplugin.Kind:
		err = exit.Usage("--max-cost and --clean are for instance-group plugins, and %s is an %s", file, kind.Name)
	case t.paid.set():
		passed, err = t.paid.run(ctx, p, &ofGroup, again, each)
	case t.nothing:
		passed = (&dry{kind: kind, config: config, stepRunner: t.stepRunner}).run(ctx, each)
	case kind == groupplugin.Kind:
		passed, err = ofGroup.Run(ctx, again, each)
	default:
		other := plugintest.Trial{Plugin: config, Provider: kind == plugin.ProviderKind, Image: t.image, Only: t.only, Log: log}
		if !other.Provider {
			other.StepRunner = t.stepRunner
		}
		passed, err = other.Run(ctx, again, each)
	}
	var coded *exit.Error
	switch {
	case errors.As(err, &coded):
		return err
	case err != nil:
		return exit.Coded(exit.System, "%v", err)
	case !passed:
		return exit.Shown(exit.StepsFailed)
	}
	return nil
}

// kinds are those that can be tried.
var kinds = []*pluginhost.Kind{plugin.ExecutorKind, plugin.ProviderKind, groupplugin.Kind}

// nameOf is what messages call the plugin of a file.
func nameOf(file string) string {
	name := filepath.Base(file)
	for _, kind := range kinds {
		name = strings.TrimPrefix(name, kind.Prefix)
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

// findStepRunner returns the file of a flag, or the step-runner beside this program or in PATH.
func findStepRunner(file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	if own, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), "step-runner")); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("step-runner")
	if err != nil {
		return "", exit.Coded(exit.NotFound, "there is no step-runner beside rung, nor in PATH").Hinted("give one with --step-runner FILE")
	}
	return filepath.Abs(found)
}

// show writes a case, and what is wrong.
func show(to io.Writer, r plugintrial.Result) {
	mark := "FAIL"
	switch {
	case r.Passed:
		mark = "ok  "
	case r.Skipped:
		mark = "skip"
	}
	fmt.Fprintf(to, "%s  %s\n", mark, r.Case)
	for _, line := range r.Details {
		fmt.Fprintf(to, "        %s\n", cleantext.Line(strings.TrimRight(line, "\n")))
	}
}
