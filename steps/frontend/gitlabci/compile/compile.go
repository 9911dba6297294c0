package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

const (
	// DefaultAfterScriptTimeout is how long an after_script may take when the job does not say.
	DefaultAfterScriptTimeout = 5 * time.Minute
	// MaxAttempts is how often sources, caches and artifacts are tried at most.
	MaxAttempts = 10
	// maxTimeout is the longest that a step can have.
	maxTimeout = 30 * 24 * time.Hour
)

// Conditions of steps.
const (
	onFailure = "failure() || cancelled()" // a job that is stopped has failed, too
	jobStatus = `${{ cancelled() && "canceled" || steps.%s.timeout != "" && "timedout" || failure() && "failed" || "success" }}`
)

// Compiled is a job as steps, and what whoever runs them provides.
type Compiled struct {
	Plan *plan.Component
	// Variables are what ${{ vars.NAME }} reads. They are the masked ones, which the plan does not hold, and tokens; of a job with native
	// steps, which may read any, all of them. Values are expanded; variables that are files have their path. The masked ones are sensitive.
	Variables []variable.Variable
	// Shell are all variables of the job as a script has them, for a person's shell in its environment. The masked ones are sensitive.
	Shell []variable.Variable
	// Files are the variables that are files, by their paths. Whoever runs the plan writes them first, for the job's user only.
	Files map[string]variable.Variable
	// Contents are the texts of masked files, under names that no variable has. They must not be shown.
	Contents []variable.Variable
	Results  Results
	// Notes say what the job asks for that the steps do differently or not at all.
	Notes []string
}

// contentPrefix begins the names of Compiled.Contents.
const contentPrefix = "RUNG_CONTENT_OF_"

// Compile makes the list of steps that a job means. The job's own timeout is the run's, and not in the list.
func Compile(j *Job) (*Compiled, error) {
	c, err := compile(j)
	if err != nil {
		return nil, err
	}
	out := &Compiled{
		Plan:      &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Steps: portable(c.steps, j.Project)}},
		Variables: append(c.variables(len(j.Steps) > 0), c.tokens...), Shell: c.variables(true), Files: c.files(), Results: c.results, Notes: c.notes,
	}
	if c.login != "" {
		out.Shell = append(out.Shell, variable.Variable{Name: gitSettings, Value: c.login, Raw: true})
	}
	for _, path := range slices.Sorted(maps.Keys(out.Files)) {
		if v := out.Files[path]; v.Masked && v.Value != "" {
			out.Contents = append(out.Contents, variable.Variable{Name: contentPrefix + v.Name, Value: v.Value, Raw: true, Masked: true})
		}
	}
	return out, nil
}

// compiler makes the steps of one job.
type compiler struct {
	*settings
	job   *Job
	steps []plan.Step
	names map[string]int
	own   map[string]plan.Field // the environment of the job's own commands
	login string                // settings of git in them
	main  string                // the name of the step that is the script
	kept  []keptCache

	results Results
}

func compile(j *Job) (*compiler, error) {
	s, err := newScope(j)
	if err != nil {
		return nil, err
	}
	c := &compiler{settings: &settings{scope: s, gitlab: j.GitLab}, job: j, names: map[string]int{}, main: "script"}
	for _, name := range s.left {
		c.note("the variable %q is not given to the steps: no shell takes that name", name)
	}
	c.check()
	secrets := map[string]bool{} // a secret comes from its own step
	for _, secret := range j.Secrets {
		secrets[secret.Name] = true
	}
	c.own = s.env(secrets)
	if c.login = c.gitLogin(); c.login != "" {
		c.own[gitSettings] = c.data(c.login)
	}
	c.kept = c.caches()
	for _, stage := range []func(){
		c.secrets, c.preGetSources, c.sources, c.postGetSources, c.restoreCaches, c.downloadArtifacts,
		c.script, c.release, c.coverage, c.pages, c.afterScript, c.dotenv, c.saveCaches, c.uploadArtifacts,
	} {
		stage()
	}
	return c, errors.Join(c.errs...)
}

// check reports what the job says as a whole that cannot be done.
func (c *compiler) check() {
	j := c.job
	if len(j.Script) > 0 && len(j.Steps) > 0 {
		c.fail("a job has a script or `run`, not both")
	}
	switch j.Shell {
	case "", plan.ShellBash, plan.ShellSh, plan.ShellPwsh, plan.ShellPowershell, plan.ShellCmd:
	default:
		c.fail("the shell %q is not known; it can be bash, sh, pwsh, powershell or cmd", j.Shell)
	}
	if _, ok := c.vars.Get("TRANSFER_METER_FREQUENCY"); ok {
		c.note("TRANSFER_METER_FREQUENCY changes nothing: transfers are reported when they are done")
	}
}

// name returns a name for a step that no other has.
func (c *compiler) name(base string) string {
	c.names[base]++
	if n := c.names[base]; n > 1 {
		return fmt.Sprintf("%s_%d", base, n)
	}
	return base
}

// call appends a step that calls a built-in one.
func (c *compiler) call(name, builtin string, in inputs) *plan.Step {
	c.steps = append(c.steps, plan.Step{
		Name:   c.name(name),
		Ref:    &plan.Reference{Kind: plan.RefBuiltin, Text: "builtin://" + builtin, Path: strings.Split(builtin, "/")},
		Inputs: in,
	})
	return &c.steps[len(c.steps)-1]
}

// inputs are those of a step. What a step does by itself is not among them.
type inputs map[string]plan.Field

func (in inputs) add(name string, v value.Value) { in[name] = plan.Field{Value: v} }

func (in inputs) yes(name string, b bool) {
	if b {
		in.add(name, value.OfBool(true))
	}
}

func (in inputs) number(name string, n int64, byDefault int64) {
	if n != byDefault {
		in.add(name, value.OfInt(n))
	}
}

// condition makes a step run `when` as artifacts and caches say it.
func (c *compiler) condition(s *plan.Step, what, when string) {
	switch when {
	case "", "on_success":
	case "on_failure":
		s.If = &plan.Field{Value: value.OfString(onFailure)}
	case "always":
		s.When = plan.Always
	default:
		c.fail("%s: `when` is %q, and can be on_success, on_failure or always", what, when)
	}
}

// lines appends a step that runs lines of the job, which were written at the given places.
func (c *compiler) lines(name string, lines []string, written [][]diag.SourceLine) *plan.Step {
	in := inputs{}
	in["lines"] = plan.Field{Value: c.texts(lines), Lines: written}
	c.addText(in, "shell", c.job.Shell)
	in.yes("trace", c.vars.Bool("CI_DEBUG_TRACE"))
	in.yes("sections", c.vars.Bool("FF_SCRIPT_SECTIONS"))
	s := c.call(name, "script", in)
	s.Env = c.own
	if len(written) > 0 && len(written[0]) > 0 {
		s.Span = written[0][0].Span
	}
	return s
}

func (c *compiler) preGetSources() {
	if len(c.job.PreGetSources) > 0 {
		c.lines("pre_get_sources", c.job.PreGetSources, c.job.Written.PreGetSources)
	}
}

func (c *compiler) postGetSources() {
	if len(c.job.PostGetSources) > 0 {
		c.lines("post_get_sources", c.job.PostGetSources, nil)
	}
}

// logName is the file that takes the log of the script, for the coverage in it.
const logName = "script.log"

func (c *compiler) script() {
	var s *plan.Step
	if len(c.job.Steps) > 0 {
		c.main = "run"
		inline := &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Steps: c.job.Steps}}
		c.steps = append(c.steps, plan.Step{Name: c.name(c.main), Inline: inline, Env: c.own})
		s = &c.steps[len(c.steps)-1]
	} else {
		s = c.lines(c.main, c.job.Script, c.job.Written.Script)
		if c.job.Coverage != "" {
			s.Inputs["log_file"] = c.data(c.path(logName))
		}
	}
	s.Timeout = plan.Duration(min(cmp.Or(c.job.ScriptTimeout, c.timeout("RUNNER_SCRIPT_TIMEOUT")), maxTimeout))
}

// reached is the condition that the script has begun.
func (c *compiler) reached() *plan.Field {
	return &plan.Field{Value: value.OfString("steps." + c.main + `.status != "skipped"`)}
}

func (c *compiler) coverage() {
	switch {
	case c.job.Coverage == "":
		return
	case len(c.job.Steps) > 0:
		c.note("coverage is not computed: the steps of `run` have a log each; call builtin://coverage in one of them")
		return
	case c.temp == "":
		c.fail("cannot compute the coverage: there is no folder for the log")
	}
	in := inputs{}
	c.addText(in, "pattern", c.job.Coverage)
	c.addText(in, "file", c.path(logName))
	s := c.call("coverage", "coverage", in)
	s.If, s.When, s.AllowFailure = c.reached(), plan.Always, &plan.AllowFailure{}
}

// afterScript runs once the script has begun, whatever became of it, with time of its own.
func (c *compiler) afterScript() {
	if len(c.job.AfterScript) == 0 {
		return
	}
	s := c.lines("after_script", c.job.AfterScript, c.job.Written.AfterScript)
	// As with GitLab's runner, the end of the job's time is the end of the job, and a script whose own time is over is not.
	s.If = &plan.Field{Value: value.OfString(c.reached().Value.Str() + " && steps." + c.main + `.timeout != "run"`)}
	s.When = plan.Always
	s.Timeout = plan.Duration(min(cmp.Or(c.job.AfterScriptTimeout, c.timeout("RUNNER_AFTER_SCRIPT_TIMEOUT"), DefaultAfterScriptTimeout), maxTimeout))
	if !c.job.AfterScriptFails && c.flag("AFTER_SCRIPT_IGNORE_ERRORS", true) {
		s.AllowFailure = &plan.AllowFailure{}
	}
	s.Env = maps.Clone(c.own)
	s.Env["CI_JOB_STATUS"] = plan.Field{Value: value.OfString(fmt.Sprintf(jobStatus, c.main))}
}
