package run

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

// ciPrefixes begin the names of the job's variables in the environment of a CI job.
var ciPrefixes = []string{"CI_", "GITLAB_", "DOCKER_"}

func (a *app) ciCommand() *cobra.Command {
	s := session.New(a.Program)
	var o portFlags
	cmd := &cobra.Command{
		Use:   "ci [FILE|-]",
		Short: "Run the steps in $STEPS, a file or standard input",
		Long: `ci runs a list of steps: the YAML in the environment variable STEPS, in FILE, or on standard input (-).

Environment variables whose names begin with CI_, GITLAB_ or DOCKER_ are the job variables: expressions read them as ${{
job.NAME }} or ${{ vars.NAME }}. Steps do not see them in their environment. Of your environment, steps get PATH, USER,
LOGNAME, SHELL, TERM, the locale, the time zone and proxies; add more with --env and --secret.

With --port, gRPC clients on this machine that present a token can follow and cancel the job as the run "ci"
(docs/service.md). Without steps, they send some, as with` + "`serve`" + `.

` + exit.CodesHelp,
		Example: `  STEPS="$(cat steps.yml)" step-runner ci --output-file trace.json
  step-runner ci steps.yml --secret DEPLOY_TOKEN
  step-runner ci --port 8080 --token-file token`,
		Args: command.Arguments(0, 1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.wanted() && len(args) == 0 && strings.TrimSpace(a.Getenv("STEPS")) == "" {
				return o.serveOnly(cmd.Context(), s)
			}
			name, text, err := a.steps(args)
			if err != nil {
				return err
			}
			component, err := gitlabsteps.ParseSteps(name, text)
			if err != nil {
				return err
			}
			s.JobVars = a.jobVariables()
			if s.WorkDir == "" {
				s.WorkDir = a.Getenv("CI_PROJECT_DIR")
			}
			j := session.Job{Component: component, Text: text}
			if o.wanted() {
				return o.execute(cmd.Context(), s, j)
			}
			_, err = s.Execute(cmd.Context(), j)
			return err
		},
	}
	s.Declare(cmd.Flags(), "CI_PROJECT_DIR, or the current folder")
	o.flags(cmd.Flags())
	screen.CompleteView(cmd)
	command.Complete(cmd, "step-results-format", "json", "prototext")
	command.Complete(cmd, "env-policy", values.EnvPolicies...)
	command.Complete(cmd, "confine", plan.Confinements...)
	command.CompleteWith(cmd, "pause-before", a.completeSteps)
	return cmd
}

// steps reads the text of a job.
func (a *app) steps(args []string) (name string, text []byte, err error) {
	switch {
	case len(args) == 0:
		steps := a.Getenv("STEPS")
		if strings.TrimSpace(steps) == "" {
			return "", nil, exit.Usage("there are no steps: the environment variable STEPS is empty").
				Hinted(`run STEPS="$(cat steps.yml)" step-runner ci, or step-runner ci steps.yml`)
		}
		return "STEPS", []byte(steps), nil
	default:
		return a.Read(args[0])
	}
}

func (a *app) jobVariables() map[string]engine.Variable {
	vars := map[string]engine.Variable{}
	for _, pair := range a.Env {
		name, text, _ := strings.Cut(pair, "=")
		for _, prefix := range ciPrefixes {
			if strings.HasPrefix(name, prefix) {
				vars[name] = values.JobVariable(name, text)
			}
		}
	}
	return vars
}
