// Package step compiles the steps of GitHub's workflows and composite actions to steps of a plan: run, uses, background steps, and the keys
// that all of them share.
//
// A Reader reads one list. Reading is strict: every unknown key, wrong type and broken expression is reported, each with its place. What
// GitHub refuses is refused here. The package runs nothing, and reads no files but the text it is given.
package step

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/yamlsource"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Reader reads the steps of a list. Its texts share the ids of the list: what else the same file says of steps, such as the outputs of an
// action, is read with the same Text after Steps.
type Reader struct {
	*Text
	// Composite says that the steps are those of a composite action: they see no secrets, none of them runs in the background, and each
	// with run names its shell.
	Composite bool
	// Shell and WorkDir are what defaults.run says; nil is nothing.
	Shell, WorkDir *yamlsource.Node
	// WholeEnv says that the variables of a step may be one expression, which whoever has the contexts computes: it is not in the plan.
	WholeEnv bool

	names []string           // of the steps that are not read yet, in the plan
	ids   map[string]claimed // by ids in lower case
}

// claimed is a step that has an id.
type claimed struct {
	name       string // in the plan
	line       int
	background bool // it has started in the background, seen from the step that is being read
}

// MaxBackground is how many steps GitHub runs in the background at once.
const MaxBackground = 10

// kinds are the keys that say what a step does. A step has one of them.
var kinds = []string{"run", "uses", "wait", "wait-all", "cancel", "parallel"}

// keysOf are the keys that a step with one of the kinds can have besides it.
func (r *Reader) keysOf(kind string) []string {
	keys := []string{"name", "id", "if", "env", "continue-on-error"}
	switch kind {
	case "run":
		keys = append(keys, "shell", "working-directory")
	case "uses":
		keys = append(keys, "with")
	case "wait", "wait-all", "cancel":
		return []string{"name", "id", "continue-on-error"}
	case "parallel":
		return []string{"name"}
	}
	if r.Composite {
		return keys
	}
	return append(keys, "timeout-minutes", "background")
}

// workflowOnly are keys that steps of workflows have, and those of composite actions have not.
var workflowOnly = []string{"timeout-minutes", "background", "wait", "wait-all", "cancel", "parallel"}

// Steps reads the list. The steps of the plan are in the order of its items.
func (r *Reader) Steps(n *yamlsource.Node) []plan.Step {
	if n.Kind != yamlsource.Sequence || len(n.Items) == 0 {
		r.Report(n.Span, "begin each step with `- `", "the steps must be a list with at least one step")
		return nil
	}
	r.claim(n)
	steps := make([]plan.Step, len(n.Items))
	for i, item := range n.Items {
		steps[i] = r.step(item, false)
	}
	return steps
}

// step reads one step; grouped is one of a parallel group.
func (r *Reader) step(n *yamlsource.Node, grouped bool) plan.Step {
	s := plan.Step{Name: r.names[0], Span: n.Span}
	r.names = r.names[1:]
	kind := r.kind(n, grouped)
	if kind == "" {
		return s
	}
	r.Object(n, "a step", append(r.keysOf(kind), kind)...)
	body := n.Get(kind)
	switch kind {
	case "run":
		r.run(&s, n, body)
	case "uses":
		r.uses(&s, n, body)
	case "parallel":
		r.parallel(&s, body)
	default:
		r.await(&s, kind, body)
	}
	for _, e := range n.Entries {
		r.shared(&s, kind, e, grouped)
	}
	return s
}

// kind finds out what a step does: "" when that is not to be had.
func (r *Reader) kind(n *yamlsource.Node, grouped bool) string {
	if n.Kind != yamlsource.Mapping {
		r.Object(n, "a step", "run", "uses")
		return ""
	}
	kind := ""
	for _, e := range n.Entries {
		key := e.Key.Text
		switch {
		case r.Composite && slices.Contains(workflowOnly, key):
			r.Report(e.Key.Span, "write it on the step that uses the action", "a step of a composite action cannot have %q", key)
			return ""
		case grouped && slices.Contains(workflowOnly[1:], key):
			r.Report(e.Key.Span, "a parallel group has steps with run or uses", "a step of a parallel group cannot have %q", key)
			return ""
		case !slices.Contains(kinds, key):
		case kind != "":
			r.Report(e.Key.Span, "split it into two steps", "a step has %s or %s, not both", kind, key)
			return ""
		default:
			kind = key
		}
	}
	if kind == "" {
		r.Object(n, "a step", append(r.keysOf("run"), append([]string{"with"}, kinds...)...)...)
		r.Report(n.Span, "give it `run` or `uses`", "the step has nothing to do")
	}
	return kind
}

// shared reads a key that steps of more than one kind have.
func (r *Reader) shared(s *plan.Step, kind string, e yamlsource.Entry, grouped bool) {
	if !slices.Contains(r.keysOf(kind), e.Key.Text) {
		return
	}
	switch e.Key.Text {
	case "name":
		if text, ok := r.Scalar(e.Value, "the name"); ok {
			r.Template(e.Value, "the name", r.contexts())
			s.Title = text
		}
	case "if":
		s.If, s.When = r.Condition(e.Value, r.conditionContexts())
	case "env":
		if r.WholeEnv && isExpression(e.Value) {
			r.Template(e.Value, `"env"`, r.contexts()) // for its mistakes: who knows the contexts computes it
			return
		}
		s.Env = r.Fields(e.Value, `"env"`, "the variable ", r.contexts())
	case "continue-on-error":
		s.AllowFailure = r.allowFailure(e.Value)
	case "timeout-minutes":
		r.timeout(s, e.Value)
	case "background":
		if s.Background = r.Boolean(e.Value, `"background"`); s.Background {
			r.started(s.Name)
		}
	}
}

func (r *Reader) allowFailure(n *yamlsource.Node) *plan.AllowFailure {
	if n.Kind == yamlsource.String && HasExpression(n.Text) {
		field := r.call(ghexpr.ConditionFunction, n, `"continue-on-error"`, r.contexts(), nil)
		return &plan.AllowFailure{If: &field}
	}
	if r.Boolean(n, `"continue-on-error"`) {
		return &plan.AllowFailure{}
	}
	return nil
}

// maxMinutes is the longest time that GitHub lets a step take.
const maxMinutes = 360

func (r *Reader) timeout(s *plan.Step, n *yamlsource.Node) {
	if n.Kind == yamlsource.String && HasExpression(n.Text) {
		field := r.call(ghexpr.ValueFunction, n, `"timeout-minutes"`, r.contexts(), nil)
		s.TimeLimit = &field
		return
	}
	minutes, err := strconv.Atoi(n.Text)
	if !n.Kind.IsScalar() || err != nil || minutes <= 0 {
		r.Report(n.Span, "write 5 for five minutes", `"timeout-minutes" must be a whole number of minutes`)
		return
	}
	s.Timeout = plan.Duration(min(minutes, maxMinutes) * int(time.Minute))
}

// isExpression reports whether a node is nothing but one expression.
func isExpression(n *yamlsource.Node) bool {
	if n.Kind != yamlsource.String || !HasExpression(n.Text) {
		return false
	}
	t, err := ghexpr.ParseTemplate(n.Text, nil)
	if err != nil {
		return true // which is reported where it is read
	}
	_, whole := t.Whole()
	return whole
}

// Fields reads a map of strings with expressions; a value of null is the empty string. Item precedes a name in messages ("the input ").
func (t *Text) Fields(n *yamlsource.Node, what, item string, c *Contexts) map[string]plan.Field {
	var fields map[string]plan.Field
	for _, e := range t.Entries(n, what) {
		name := e.Key.Text
		if name == "" || strings.ContainsAny(name, "=\x00") || HasExpression(name) {
			t.Report(e.Key.Span, "", "%q cannot be the name of %s", Shorten(name), strings.TrimSpace(item))
			continue
		}
		if fields == nil {
			fields = map[string]plan.Field{}
		}
		fields[name] = t.Template(e.Value, item+name, c)
	}
	return fields
}

// text is a field of our language's that holds it as it is.
func text(s string) plan.Field { return plan.Field{Value: value.OfString(s)} }
