package workflow

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// Certain are the problems of a job's strategy and settings that no run can do without: those of a job in which nothing but its own matrix
// decides them. The error is a diag.List.
func (j *Job) Certain() error {
	for _, n := range []*yamlsource.Node{
		j.node.name, j.node.strategy, j.node.runsOn, j.node.timeout, j.node.continueOnError, j.node.container, j.node.services, j.node.environment, j.node.concurrency,
	} {
		if n != nil && !isCertain(n) {
			return nil
		}
	}
	legs, err := j.Legs(nil)
	if err != nil {
		return err
	}
	for _, l := range legs.List {
		if _, err := j.Settings(l, nil); err != nil {
			return err
		}
	}
	return nil
}

// isCertain reports whether expressions of a node use nothing but the matrix.
func isCertain(n *yamlsource.Node) bool {
	if n.Kind == yamlsource.String && hasExpression(n.Text) {
		t, err := ghexpr.ParseTemplate(n.Text, nil)
		if err != nil {
			return false
		}
		for _, part := range t.Parts() {
			if part.Expr == nil {
				continue
			}
			for _, ref := range part.Expr.References() {
				if ref.Path[0] != "matrix" && ref.Path[0] != "strategy" {
					return false
				}
			}
		}
	}
	return !slices.ContainsFunc(n.Items, func(item *yamlsource.Node) bool { return !isCertain(item) }) &&
		!slices.ContainsFunc(n.Entries, func(e yamlsource.Entry) bool { return !isCertain(e.Value) })
}

// CheckCall holds what a job gives against what the workflow that it calls takes. What an expression gives is taken to be right. The error
// is a diag.List about the text of the job.
func (w *Workflow) CheckCall(caller *Job) error {
	args := &Arguments{With: map[string]value.Value{}, Secrets: map[string]value.Value{}}
	for _, in := range w.On.inputs {
		if in.computed != nil {
			args.With[in.Name] = in.empty()
		}
	}
	for _, e := range entries(caller.node.with) {
		name, given := e.Key.Text, value.Value{}
		i := slices.IndexFunc(w.On.inputs, func(in Input) bool { return strings.EqualFold(in.Name, name) })
		switch {
		case i >= 0 && computed(e.Value):
			name, given = w.On.inputs[i].Name, w.On.inputs[i].empty()
		case i >= 0:
			name, given = w.On.inputs[i].Name, literalValue(e.Value)
		}
		args.With[name] = given
	}
	for _, e := range entries(caller.node.secrets) {
		args.Secrets[e.Key.Text] = value.OfString("")
	}
	_, err := w.AsCalled(caller, args, nil)
	return err
}

// literalValue is a node without expressions as a value.
func literalValue(n *yamlsource.Node) value.Value {
	if n.Kind.IsScalar() {
		return literal(n)
	}
	return n.Value()
}
