// Command rung is a runner of GitLab: it registers this machine, asks for jobs, and runs each as steps, isolated as its operator says.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/configuration"
	"github.com/rungci/rung/cmd/rung/command/dev"
	"github.com/rungci/rung/cmd/rung/command/fleet"
	"github.com/rungci/rung/cmd/rung/command/jobs"
	"github.com/rungci/rung/cmd/rung/command/machine"
	"github.com/rungci/rung/cmd/rung/command/plugins"
	"github.com/rungci/rung/cmd/rung/command/runners"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/tempfolder"
)

func main() { os.Exit(run()) }

// run is main with an exit code, so that tests can call it.
func run() int {
	tempfolder.Settle()
	_ = process.Conceal() // where it fails, processes of the same user can look
	p := &command.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Env: os.Environ(), Version: command.Version(buildVersion),
	}
	root := rootCommand(p)
	root.SetArgs(os.Args[1:])
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exit.OK
	}
	code, text := exit.Report(err)
	fmt.Fprint(p.Stderr, text)
	return code
}

// rootCommand puts the groups of commands together.
func rootCommand(p *command.Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "rung",
		Short: "Run GitLab's jobs, each isolated as you say",
		Long: `rung is a runner of GitLab. It reads the config.toml of gitlab-runner, and runs every job as steps, on the level of isolation that the
entry asks for.

` + exit.CodesHelp,
		Example: `  rung register --url https://gitlab.example.com --token-file token
  rung run
  rung dev run
  rung config lint
  rung config migrate`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.Group(root)
	command.VersionFlag(root, func() string { return command.VersionText(p, "rung") })
	root.SetFlagErrorFunc(command.FlagError)
	jobs.LogFlags(root)
	command.InGroup(root, "Jobs", jobs.Commands(p)...)
	command.InGroup(root, "Try", dev.Command(p, func(stepRunner string) dev.Place { return dev.Place(jobs.NewPlace(p, stepRunner)) }))
	command.InGroup(root, "Fleet", fleet.Command(p))
	command.InGroup(root, "This machine", machine.Commands(p, jobs.Open(p), jobs.FindProgram)...)
	command.InGroup(root, "Runners", runners.Commands(p)...)
	command.InGroup(root, "Configuration", configuration.Command(p), plugins.Command(p), command.VersionCommand(p, "rung"))
	root.SetHelpCommandGroupID("configuration")
	root.SetCompletionCommandGroupID("configuration")
	command.FitHelp(root)
	return root
}

// The help text lists commands in the order of their use, and each group in the order of its package.
func init() { cobra.EnableCommandSorting = false }

// buildVersion is set by the linker: -X main.buildVersion=v1.2.3.
var buildVersion string
