package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/steps/diag"
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
	inputs    inputFlags
	jobVars   []string
	outputs   bool
	textProto string
}

func (a *app) runCommand() *cobra.Command {
	s := a.newSession()
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run REF|FILE|-",
		Short: "Run one step by its reference, or a file of steps",
		Long: `run runs a step by its reference (./hello), a step file (./hello/step.yml), or a file that holds a list of steps.

Inputs are typed by the step's spec: --input count=3 is a number where the step declares one. The secrets that are given
with --secret are granted to the step that is named; a list of steps grants them itself (secrets: [NAME]).

Job variables are those given with --job. Of your environment, steps see what those of ` + "`ci`" + ` do.

` + exitCodesHelp,
		Example: `  step-runner run ./hello --input greeting="hello world"
  step-runner run ./deploy --secret DEPLOY_TOKEN --input-file inputs.yml --output-file trace.json
  step-runner run steps.yml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.textProto != "" {
				return arguments(0, 0, "")(cmd, args)
			}
			return arguments(1, 1, "the reference or file to run")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.close()
			return a.runStep(cmd.Context(), s, &o, args)
		},
	}
	f := cmd.Flags()
	s.flags(f, "the current folder")
	f.StringArrayVar(&o.inputs.pairs, "input", nil, "give the step the input `NAME=VALUE`")
	f.StringVar(&o.inputs.file, "input-file", "", "read inputs from the YAML or JSON `FILE`")
	f.StringArrayVar(&o.jobVars, "job", nil, "set the job variable `NAME=VALUE`, for ${{ job.NAME }}")
	f.BoolVar(&o.outputs, "print-outputs", false, "print the outputs as JSON on standard output, and everything else on standard error")
	f.StringVar(&o.textProto, "text-proto-step-file", "", "run the SpecDefinition in the text protocol buffer `FILE`")
	return cmd
}

func (a *app) runStep(ctx context.Context, s *session, o *runOptions, args []string) error {
	s.toStderr = o.outputs
	vars, err := assignments("--job", o.jobVars, nil)
	if err != nil {
		return err
	}
	s.jobVars = map[string]engine.Variable{}
	for name, text := range vars {
		s.jobVars[name] = jobVariable(name, text)
	}
	var j job
	if o.textProto != "" {
		j, err = s.protoJob(o)
	} else {
		j, err = s.namedJob(ctx, o, args[0])
	}
	if err != nil {
		return err
	}
	result, err := s.execute(ctx, j)
	if err == nil && o.outputs {
		_, err = fmt.Fprintf(a.stdout, "%s\n", value.OfStruct(result.Outputs).AppendJSON(nil))
	}
	return err
}

// protoJob makes the job of a SpecDefinition.
func (s *session) protoJob(o *runOptions) (job, error) {
	text, err := source.ReadFile(o.textProto)
	if err != nil {
		return job{}, coded(exitNotFound, "--text-proto-step-file: %v", err)
	}
	component, err := stepproto.ParseText(text)
	if err != nil {
		return job{}, coded(exitDefinition, "%s: %v", o.textProto, err)
	}
	inputs, err := o.inputs.values(component.Spec.Inputs)
	return job{component: component, text: text, inputs: inputs}, err
}

// namedJob makes the job of a reference, a step file or a file with a list of steps.
func (s *session) namedJob(ctx context.Context, o *runOptions, arg string) (job, error) {
	arg = strings.TrimSpace(arg)
	for _, key := range []string{"step:", "func:"} { // the existing step-runner takes `run "step: ./hello"`
		arg = strings.TrimSpace(strings.TrimPrefix(arg, key))
	}
	if info, err := os.Stat(arg); arg == "-" || err == nil && !info.IsDir() && !isArchiveFile(arg) {
		name, text, err := s.app.read(arg)
		if err != nil {
			return job{}, err
		}
		component, err := gitlabsteps.ParseSteps(name, text)
		if err != nil {
			return job{}, err
		}
		if isList(component) {
			if len(o.inputs.pairs) > 0 || o.inputs.file != "" {
				return job{}, usage("%s is a list of steps, which takes no inputs", arg)
			}
			return job{component: component, text: text}, nil
		}
		if arg == "-" {
			inputs, err := o.inputs.values(component.Spec.Inputs)
			return job{component: component, text: text, inputs: inputs}, err
		}
		if !filepath.IsAbs(arg) && !strings.HasPrefix(arg, ".") {
			arg = "./" + arg
		}
		ref := &plan.Reference{Kind: plan.RefLocal, Text: arg, Path: []string{filepath.Dir(arg)}, File: filepath.Base(arg)}
		return s.referenceJob(ctx, o, ref)
	}
	if _, err := os.Stat(arg); err == nil && isArchiveFile(arg) && !filepath.IsAbs(arg) && !strings.HasPrefix(arg, ".") {
		arg = "./" + arg
	}
	ref, err := gitlabsteps.ParseStaticReference(arg, diag.Span{})
	if err != nil {
		return job{}, coded(exitNotFound, "%q is neither a file nor a reference: %v", arg, err).
			hinted("a step in a folder is written ./FOLDER, a file of steps by its path")
	}
	return s.referenceJob(ctx, o, ref)
}

// isList reports whether a component is a plain list of steps, which has no interface.
func isList(c *plan.Component) bool {
	return c.Definition.Exec == nil && len(c.Spec.Inputs)+len(c.Spec.Outputs)+len(c.Spec.Env)+len(c.Spec.Secrets) == 0 && !c.Spec.DelegateOutputs
}

// referenceJob makes the job that calls one component, grants it every secret of the run, and passes its outputs on.
func (s *session) referenceJob(ctx context.Context, o *runOptions, ref *plan.Reference) (job, error) {
	dir, err := s.directory()
	if err != nil {
		return job{}, err
	}
	if s.workDir != "" && ref.Kind == plan.RefLocal && !filepath.IsAbs(filepath.Join(ref.Path...)) {
		if dir, err = os.Getwd(); err != nil { // a path on the command line starts where the user is
			return job{}, err
		}
		ref.Path = append([]string{dir}, ref.Path...)
	}
	if err := s.open(); err != nil {
		return job{}, err
	}
	fetch, stop := s.app.fetching(ctx, s.timeout)
	component, err := s.components.Load(fetch, ref, dir)
	stop()
	if err != nil {
		return job{}, err
	}
	inputs, err := o.inputs.values(component.Plan.Spec.Inputs)
	if err != nil {
		return job{}, err
	}
	secrets, err := s.secretValues()
	if err != nil {
		return job{}, err
	}
	step := plan.Step{Name: gitlabsteps.NameFor(ref), Ref: ref, Inputs: map[string]plan.Field{}, Secrets: map[string]string{}}
	for name, v := range inputs {
		step.Inputs[name] = plan.Field{Value: expr.EscapeValue(v.Mark(component.Plan.Spec.Inputs[name].Sensitive))}
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if _, ok := component.Plan.Spec.Secrets[name]; !ok {
			return job{}, coded(exitDefinition, "the step %s does not request the secret %s", ref.Text, name).
				hinted("a step gets the secrets that its spec requests: `spec: {secrets: {%s: {}}}`", name)
		}
		step.Secrets[name] = name
	}
	return job{component: &plan.Component{
		Spec:       plan.Spec{DelegateOutputs: true},
		Definition: plan.Definition{Steps: []plan.Step{step}, Delegate: step.Name},
	}}, nil
}
