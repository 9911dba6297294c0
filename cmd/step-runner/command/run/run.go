package run

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/stepproto"
	"github.com/rungci/rung/steps/value"
)

// runOptions are the flags of `run` beyond those of a session.
type runOptions struct {
	inputs    values.Inputs
	jobVars   []string
	access    []string
	outputs   bool
	textProto string
}

func (a *app) runCommand() *cobra.Command {
	s := session.New(a.Program)
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run REF|FILE|-",
		Short: "Run a step by its reference, or a step file",
		Long: `run runs a step by its reference (./hello), a step definition (./hello/step.yml), or a file with a list of steps.

Inputs have the types that the step declares: --input count=3 is a number if the step declares one. A step that you run by
reference gets the secrets you pass with --secret; a list of steps grants them itself (secrets: [NAME]). In the same way a step that
is confined gets the access that it requests with --allow-access, and those of a list with allow_access.

Set job variables with --job. Steps see the same part of your environment as with ` + "`ci`" + `.

` + exit.CodesHelp,
		Example: `  step-runner run ./hello --input greeting="hello world"
  step-runner run ./deploy --secret DEPLOY_TOKEN --output-file trace.json
  step-runner run steps.yml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.textProto != "" {
				if len(o.access) > 0 {
					return exit.Usage("--allow-access cannot be used with --text-proto-step-file")
				}
				return command.Arguments(0, 0, "")(cmd, args)
			}
			return command.Arguments(1, 1, "the reference or file to run")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.Close()
			return a.runStep(cmd.Context(), s, &o, args)
		},
	}
	f := cmd.Flags()
	s.Declare(f, "the current folder")
	f.StringArrayVar(&o.inputs.Pairs, "input", nil, "set the input `NAME=VALUE`")
	f.StringArrayVar(&o.inputs.Lists, "inputs", nil, "set several inputs, `NAME=VALUE,NAME=VALUE`, as with the existing step-runner")
	f.StringVar(&o.inputs.File, "input-file", "", "read inputs from the YAML or JSON `FILE`")
	f.StringArrayVar(&o.jobVars, "job", nil, "set the job variable `NAME=VALUE`, for ${{ job.NAME }}")
	f.StringArrayVar(&o.access, "allow-access", nil, "let a confined step that you run by reference read `PATH`, or write to it with PATH:rw, if it requests that")
	f.BoolVar(&o.outputs, "print-outputs", false, "print the outputs as JSON on standard output, and everything else on standard error")
	f.StringVar(&o.textProto, "text-proto-step-file", "", "run the SpecDefinition in the text protocol buffer `FILE`")
	cmd.ValidArgsFunction = components.CompleteReference
	screen.CompleteView(cmd)
	command.Complete(cmd, "step-results-format", "json", "prototext")
	command.Complete(cmd, "env-policy", values.EnvPolicies...)
	command.Complete(cmd, "confine", plan.Confinements...)
	command.CompleteWith(cmd, "pause-before", a.completeSteps)
	return cmd
}

// completeSteps completes the names of the steps of the list that the first argument names.
func (a *app) completeSteps(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) > 0 && args[0] != "-" {
		if name, text, err := a.Read(args[0]); err == nil {
			if list, err := gitlabsteps.ParseSteps(name, text); err == nil && components.IsList(list) {
				for _, s := range list.Definition.Steps {
					names = append(names, s.Name)
				}
			}
		}
	}
	return command.Beginning(typed, names), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) runStep(ctx context.Context, s *session.Session, o *runOptions, args []string) error {
	s.ToStderr = o.outputs
	vars, err := values.Assignments("--job", o.jobVars, nil)
	if err != nil {
		return err
	}
	for _, text := range o.access {
		if _, err := plan.ParseAccess(text); err != nil {
			return exit.Usage("--allow-access %q: %v", text, err)
		}
	}
	s.JobVars = map[string]engine.Variable{}
	for name, text := range vars {
		s.JobVars[name] = values.JobVariable(name, text)
	}
	var j session.Job
	if o.textProto != "" {
		j, err = o.protoJob()
	} else {
		j, err = o.namedJob(ctx, s, args[0])
	}
	if err != nil {
		return err
	}
	result, err := s.Execute(ctx, j)
	if err == nil && o.outputs {
		_, err = fmt.Fprintf(a.Stdout, "%s\n", cleantext.JSON(value.OfStruct(result.Outputs).AppendJSON(nil)))
	}
	return err
}

// protoJob makes the job of a SpecDefinition.
func (o *runOptions) protoJob() (session.Job, error) {
	text, err := source.ReadFile(o.textProto)
	if err != nil {
		return session.Job{}, exit.Coded(exit.NotFound, "--text-proto-step-file: %v", err)
	}
	component, err := stepproto.ParseText(text)
	if err != nil {
		return session.Job{}, exit.Coded(exit.Definition, "%s: %v", o.textProto, err)
	}
	inputs, err := o.inputs.Values(component.Spec.Inputs)
	return session.Job{Component: component, Text: text, Inputs: inputs}, err
}

// namedJob makes the job of a reference, a step file or a file with a list of steps.
func (o *runOptions) namedJob(ctx context.Context, s *session.Session, arg string) (session.Job, error) {
	arg = strings.TrimSpace(arg)
	for _, key := range []string{"step:", "func:"} { // the existing step-runner takes `run "step: ./hello"`
		arg = strings.TrimSpace(strings.TrimPrefix(arg, key))
	}
	if info, err := os.Stat(arg); arg == "-" || err == nil && !info.IsDir() && !components.IsArchive(arg) {
		name, text, err := s.Program.Read(arg)
		if err != nil {
			return session.Job{}, err
		}
		component, err := gitlabsteps.ParseSteps(name, text)
		if err != nil {
			return session.Job{}, err
		}
		if len(o.access) > 0 && (arg == "-" || components.IsList(component)) {
			return session.Job{}, exit.Usage("--allow-access is for a step that you run by its reference; the steps of a list have `allow_access`")
		}
		if components.IsList(component) {
			if o.inputs.Given() {
				return session.Job{}, exit.Usage("%s is a list of steps, which takes no inputs", arg)
			}
			return session.Job{Component: component, Text: text}, nil
		}
		if arg == "-" {
			inputs, err := o.inputs.Values(component.Spec.Inputs)
			return session.Job{Component: component, Text: text, Inputs: inputs}, err
		}
		if !filepath.IsAbs(arg) && !strings.HasPrefix(arg, ".") {
			arg = "./" + arg
		}
		ref := &plan.Reference{Kind: plan.RefLocal, Text: arg, Path: []string{filepath.Dir(arg)}, File: filepath.Base(arg)}
		return o.referenceJob(ctx, s, ref)
	}
	if _, err := os.Stat(arg); err == nil && components.IsArchive(arg) && !filepath.IsAbs(arg) && !strings.HasPrefix(arg, ".") {
		arg = "./" + arg
	}
	ref, err := components.Reference(arg)
	if err != nil {
		return session.Job{}, err
	}
	return o.referenceJob(ctx, s, ref)
}

// referenceJob makes the job that calls one component, grants it every secret of the run, and passes its outputs on.
func (o *runOptions) referenceJob(ctx context.Context, s *session.Session, ref *plan.Reference) (session.Job, error) {
	dir, err := s.Directory()
	if err != nil {
		return session.Job{}, err
	}
	if s.WorkDir != "" && ref.Kind == plan.RefLocal && !filepath.IsAbs(filepath.Join(ref.Path...)) {
		if dir, err = os.Getwd(); err != nil { // a path on the command line starts where the user is
			return session.Job{}, err
		}
		ref.Path = append([]string{dir}, ref.Path...)
	}
	if err := s.Open(); err != nil {
		return session.Job{}, err
	}
	fetch, stop := components.Fetching(ctx, s.Program, s.Timeout)
	component, err := s.Components.Load(fetch, ref, dir)
	stop()
	if err != nil {
		return session.Job{}, err
	}
	inputs, err := o.inputs.Values(component.Plan.Spec.Inputs)
	if err != nil {
		return session.Job{}, err
	}
	secrets, err := s.SecretValues()
	if err != nil {
		return session.Job{}, err
	}
	step := plan.Step{Name: gitlabsteps.NameFor(ref), Ref: ref, Inputs: map[string]plan.Field{}, Secrets: map[string]string{}}
	for name, v := range inputs {
		step.Inputs[name] = plan.Field{Value: expr.EscapeValue(v.Mark(component.Plan.Spec.Inputs[name].Sensitive))}
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if _, ok := component.Plan.Spec.Secrets[name]; !ok {
			return session.Job{}, exit.Coded(exit.Definition, "the step %s does not request the secret %s", ref.Text, name).
				Hinted("a step gets the secrets that its spec requests: `spec: {secrets: {%s: {}}}`", name)
		}
		step.Secrets[name] = name
	}
	step.AllowAccess = o.access
	step.InheritEnv = true // nothing is around it but what the user passes
	step.Permissions = component.Plan.Spec.Permissions
	return session.Job{Component: &plan.Component{
		Spec:       plan.Spec{DelegateOutputs: true},
		Definition: plan.Definition{Steps: []plan.Step{step}, Delegate: step.Name},
	}}, nil
}
