package workflow

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/frontend/actions/step"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// MaxSteps is how many steps a job may have.
const MaxSteps = 1000

// compiled is what of a job is the same for all its legs.
type compiled struct {
	steps   []plan.Step
	nodes   []*yamlsource.Node // of the steps
	outputs map[string]plan.Field
}

// steps reads the steps of a job, and what else becomes fields of its plan.
func (r *reader) steps(j *Job) {
	n := j.node.steps
	if n.Kind == yamlsource.Sequence && len(n.Items) > MaxSteps {
		r.report(n.Span, "put some of them into an action", "the job %q has %d steps, and %d is the most", j.ID, len(n.Items), MaxSteps)
		return
	}
	reader := &step.Reader{Text: step.NewText(r.source), WholeEnv: true, Shell: r.w.runDefault(j, "shell"), WorkDir: r.w.runDefault(j, "working-directory")}
	j.compiled = compiled{steps: reader.Steps(n), nodes: n.Items}
	outputs := map[string]plan.Field{}
	for _, e := range r.entries(j.node.outputs, `"outputs"`) {
		outputs[e.Key.Text] = reader.Template(e.Value, "the output "+e.Key.Text, availableOutputs)
	}
	if url := get(j.node.environment, "url"); url != nil {
		outputs[OutputEnvironmentURL] = reader.Template(url, "the address of the environment", availableURL)
	}
	if len(outputs) > 0 {
		j.compiled.outputs = outputs
	}
}

// runDefault is a key of defaults.run: the job's, or else the workflow's.
func (w *Workflow) runDefault(j *Job, key string) *yamlsource.Node {
	for _, defaults := range []*yamlsource.Node{j.node.defaults, w.parsed.defaults} {
		if n := get(defaults, key); n != nil {
			return n
		}
	}
	return nil
}

// fieldOf makes a field of a text whose expressions are checked already.
func fieldOf(n *yamlsource.Node) plan.Field {
	text := formatText(literal(n))
	if field, err := ghexpr.TemplateField(text, nil); err == nil && n.Kind == yamlsource.String {
		text = field
	}
	return plan.Field{Value: value.OfString(text), Span: n.Span}
}

// Uses are the actions and workflows that a workflow names, in the order of the text: what a lock file has to have.
func (w *Workflow) Uses() []Use {
	var out []Use
	for _, j := range w.Jobs {
		if j.Call != nil {
			out = append(out, Use{Text: j.Call.Uses, Workflow: true, Span: j.Call.Span, Call: j.Call})
		}
		out = append(out, j.Actions()...)
	}
	return out
}

// Actions are the actions that a job names, in the order of the text.
func (j *Job) Actions() []Use {
	var out []Use
	var add func(steps []plan.Step, conditional bool)
	add = func(steps []plan.Step, conditional bool) {
		for _, s := range steps {
			conditional := conditional || s.If != nil
			if s.Ref != nil && s.Ref.Kind == plan.RefAction {
				out = append(out, Use{Text: s.Ref.Text, Span: s.Ref.Span, Ref: s.Ref, Conditional: conditional})
			}
			add(s.Parallel, conditional)
		}
	}
	add(j.compiled.steps, false)
	return out
}

// ChecksOutOthers reports whether a step of the job checks out another repository, or the project into a folder of its own: then files of the job are not
// those of the project.
func (j *Job) ChecksOutOthers() bool {
	for _, n := range j.compiled.nodes {
		uses, with := get(n, "uses"), get(n, "with")
		if uses == nil || !strings.Contains(uses.Text, "/checkout@") {
			continue
		}
		for _, e := range entries(with) {
			if name := strings.ToLower(e.Key.Text); name == "path" || name == "repository" {
				return true
			}
		}
	}
	return false
}

// Diagnostic is what is to be said of a place in the workflow, with the line that it is on.
func (w *Workflow) Diagnostic(at diag.Span, hint, message string) diag.Diagnostic {
	return w.parsed.source.Diagnostic(at, hint, message)
}

// Use is an action or a workflow that a workflow names.
type Use struct {
	Text     string // as written: "actions/checkout@v6"
	Workflow bool   // a workflow that is called, and no action
	Span     diag.Span
	Ref      *plan.Reference // of an action
	Call     *Call           // of a workflow
	// Conditional says that an action may never run.
	Conditional bool
}

// OnGitHub returns the repository of github.com that is named, and the branch, tag or commit of it.
func (u *Use) OnGitHub() (repository, rev string, ok bool) {
	if u.Call != nil {
		return u.Call.Repository, u.Call.Ref, !u.Call.Local
	}
	action, err := plan.ParseAction(u.Ref.Action)
	if err != nil || action.Own {
		return "", "", false
	}
	repository, ok = strings.CutPrefix(action.URL, plan.GitHubURL)
	return repository, action.Rev, ok
}
