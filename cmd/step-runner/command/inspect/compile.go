package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

// compileFlags are the flags of `compile`.
type compileFlags struct {
	format  string
	spans   bool
	job     string
	workDir string
	secrets []string
	event   project.Flags
}

func (a *app) compileCommand() *cobra.Command {
	var o compileFlags
	cmd := &cobra.Command{
		Use:   "compile FILE|-",
		Short: "Print a step file or a CI job as canonical steps",
		Long: `compile prints the plan of a step file, or of a CI job. The output is canonical: inputs with the same meaning produce the
same text. It runs and fetches nothing.

With --job-name, FILE is a .gitlab-ci.yml or a GitHub workflow, and compile prints the steps that ` + "`local`" + ` would run for the job, as a file that ` + "`run`" + ` accepts. Comments at the top of the file explain how to run it. Included files are fetched. Name one job of a matrix as GitHub does: "test (20)".

` + exit.ReaderCodesHelp,
		Example: `  step-runner compile steps.yml
  step-runner compile hello/step.yml --format yaml
  step-runner compile .gitlab-ci.yml --job-name build > build.yml`,
		Args: command.Arguments(1, 1, "the file to compile"),
	}
	f := cmd.Flags()
	f.StringVarP(&o.format, "format", "f", "", "print `FORMAT`: json or yaml (default: json, and yaml with --job-name)")
	f.StringVarP(&o.format, "output", "o", "", "same as --format") // its first name
	_ = f.MarkHidden("output")
	f.BoolVar(&o.spans, "spans", false, "include source positions")
	f.StringVar(&o.job, "job-name", "", "print the steps of `JOB` in a .gitlab-ci.yml or workflow")
	f.StringVar(&o.workDir, "work-dir", "", "with --job-name: use `DIR` as the project folder (default: a temporary folder)")
	f.StringArrayVar(&o.secrets, "secret", nil, "with --job-name: supply the secret `NAME`, as for run; its value is not printed")
	o.event.Declare(f)
	command.CompleteWith(cmd, "job-name", o.event.CompleteJobs(a.Program, func(args []string) string { return strings.Join(args, "") }))
	command.Complete(cmd, "format", "json", "yaml")
	project.Complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		byDefault := "json"
		if o.job != "" {
			byDefault = "yaml"
		}
		o.format = cmp.Or(o.format, byDefault)
		if err := command.OneOf("--format", o.format, "json", "yaml"); err != nil {
			return err
		}
		if o.job != "" {
			return a.compileJob(cmd.Context(), &o, args[0])
		}
		return a.compileSteps(&o, args[0])
	}
	return cmd
}

// compileSteps prints what a file of steps means.
func (a *app) compileSteps(o *compileFlags, arg string) error {
	name, text, err := a.Read(arg)
	if err != nil {
		return err
	}
	component, err := gitlabsteps.ParseSteps(name, text)
	if err != nil {
		return err
	}
	encode := plan.Canonical
	if o.spans {
		encode = plan.WithSpans
	}
	return a.printComponent(o, component, encode)
}

// printComponent prints a definition.
func (a *app) printComponent(o *compileFlags, component *plan.Component, encode func(*plan.Component) ([]byte, error)) error {
	out, err := encode(component)
	if err == nil && o.format == "yaml" {
		out, err = yamlsource.FromJSON(out)
	}
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(cleantext.JSON(out))
	return err
}

// compileWorkflow prints the steps of a leg of a workflow's job, and says what they do in another way than on GitHub.
func (a *app) compileWorkflow(ctx context.Context, o *compileFlags, file string) error {
	secrets, err := values.ReadSecrets(o.secrets, a.LookupEnv)
	if err != nil {
		return err
	}
	p, err := o.event.OpenWorkflow(ctx, a.Program, file, secrets)
	if err != nil {
		return err
	}
	compiled, err := project.Leg(ctx, p, o.job)
	if err != nil {
		return err
	}
	for _, note := range compiled.Notes {
		fmt.Fprintf(a.Stderr, "note: %s\n", note)
	}
	return a.printComponent(o, compiled.Plan, plan.Canonical)
}

// compileJob prints the steps of a job of a .gitlab-ci.yml, or of a workflow.
func (a *app) compileJob(ctx context.Context, o *compileFlags, file string) error {
	if file, is, err := o.event.WorkflowFile(file); err != nil {
		return err
	} else if is {
		return a.compileWorkflow(ctx, o, file)
	}
	p, err := o.event.Open(ctx, a.Program, file)
	if err != nil {
		return err
	}
	jobs, err := p.Select([]string{o.job}, false)
	if err != nil {
		return project.UnknownJob(err)
	}
	if len(jobs) > 1 {
		var names []string
		for _, j := range jobs {
			names = append(names, fmt.Sprintf("%q", j.Name))
		}
		return exit.Usage("%s is %d jobs", o.job, len(jobs)).Hinted("name one of %s", strings.Join(names, ", "))
	}
	if jobs[0].Keywords.Trigger != nil {
		return exit.Coded(exit.Definition, "the job %s starts another pipeline: it has no steps", o.job)
	}
	secrets, err := values.ReadSecrets(o.secrets, a.LookupEnv)
	if err != nil {
		return err
	}
	folder := o.workDir
	if folder == "" {
		folder = filepath.Join(os.TempDir(), "rung-"+store.Slug(o.job), p.Repository.Project.Name())
	} else if folder, err = filepath.Abs(folder); err != nil {
		return exit.Coded(exit.System, "finding the work directory: %v", err)
	}
	compiled, err := p.Compile(ctx, jobs[0], gitlab.RunOptions{Secrets: secrets}, folder)
	if err != nil {
		return err
	}
	component := compiled.Plan
	var out []byte
	if o.format == "json" {
		if out, err = plan.Canonical(component); err != nil {
			return err
		}
	} else {
		if out, err = gitlabsteps.Write(component); err != nil {
			return err
		}
		out = append([]byte(compiledHead(compiled, folder)), out...)
	}
	_, err = a.Stdout.Write(out)
	return err
}

// compiledHead are the comments that say how the steps of a job are run.
func compiledHead(c *gitlab.Compiled, folder string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The steps of the job %q, in stage %q. To run them:\n", c.Job.Name, c.Job.Stage)
	fmt.Fprintf(&b, "#   mkdir -p %s %s\n", shellword.Of(c.Job.Project), shellword.Of(folder+".tmp"))
	command := "step-runner run FILE --work-dir " + shellword.Of(c.Job.Project)
	for _, v := range c.Variables {
		if v.Masked {
			command += " --job " + v.Name + "=…"
		}
	}
	fmt.Fprintf(&b, "#   %s\n", command)
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		fmt.Fprintf(&b, "# The variable %s is the file %q, which must exist.\n", c.Files[name].Name, name)
	}
	for _, note := range c.Notes {
		fmt.Fprintf(&b, "# Note: %s\n", strings.ReplaceAll(note, "\n", " "))
	}
	return b.String()
}
