package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	ghexpr "github.com/rungci/rung/steps/expr/github"
)

// merges refuses merge keys, which YAML has and GitHub does not: what they bring stands before the map that it comes to.
func (r *reader) merges(n *yamlsource.Node) {
	for _, e := range n.Entries {
		if before(e.Key.Span, n.Span) {
			r.report(n.Span, "repeat a whole map with an alias (env: *name), or write the keys out", "GitHub knows no merge keys (<<)")
			break
		}
		r.merges(e.Value)
	}
	for _, item := range n.Items {
		r.merges(item)
	}
}

func before(a, b diag.Span) bool { return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column }

// unneeded notes conditions that always hold, and expressions that ask for a job which their own job does not need, or for an output that
// it does not have: GitHub makes nothing of them without a word.
func (r *reader) unneeded(j *Job, n *yamlsource.Node) {
	for _, e := range n.Entries {
		if e.Key.Text == "if" && e.Value.Kind == yamlsource.String {
			if c, err := ghexpr.ParseCondition(e.Value.Text, nil); err == nil && c.Expr != nil {
				if c.Around != nil {
					r.note(rules.ConstantCondition, r.source.At(e.Value, c.Around.Offset, c.Around.Length), c.Around.Hint, "%s", c.Around.Message)
				}
				r.references(j, e.Value, c.Expr)
			}
			continue
		}
		r.unneeded(j, e.Value)
	}
	for _, item := range n.Items {
		r.unneeded(j, item)
	}
	if n.Kind != yamlsource.String || !hasExpression(n.Text) {
		return
	}
	if t, err := ghexpr.ParseTemplate(n.Text, nil); err == nil {
		for _, part := range t.Parts() {
			if part.Expr != nil {
				r.references(j, n, part.Expr)
			}
		}
	}
}

// fileContexts are files that a process is given: which ones is not known before it begins.
var fileContexts = []string{"github.env", "github.path", "github.output", "github.state", "github.step_summary"}

func (r *reader) references(j *Job, n *yamlsource.Node, e *ghexpr.Expr) {
	for _, ref := range e.References() {
		if name := strings.ToLower(strings.Join(ref.Path, ".")); slices.Contains(fileContexts, name) {
			r.note(rules.EmptyContext, r.source.At(n, ref.Offset, ref.Length), "write $"+strings.ToUpper(strings.ReplaceAll(name, ".", "_")), "%s is known to processes only, and empty in expressions", name)
		}
		if ref.Path[0] != "needs" || len(ref.Path) < 2 || ref.Path[1] == "*" {
			continue
		}
		place, id := r.source.At(n, ref.Offset, ref.Length), ref.Path[1]
		if !slices.ContainsFunc(j.Needs, func(need string) bool { return strings.EqualFold(need, id) }) {
			r.note(rules.UndefinedNeed, place, "add it to `needs`", "needs.%s is empty: the job %q does not need %s", id, j.ID, strconv.Quote(shorten(id)))
			continue
		}
		need := r.w.Job(id)
		if len(ref.Path) < 4 || ref.Path[2] != "outputs" || ref.Path[3] == "*" || need == nil || need.Call != nil || need.node.steps == nil {
			continue
		}
		if !slices.ContainsFunc(entries(need.node.outputs), func(o yamlsource.Entry) bool { return strings.EqualFold(o.Key.Text, ref.Path[3]) }) {
			r.note(rules.UndefinedOutput, place, "declare it in `outputs` of that job", "the job %q has no output %q", need.ID, ref.Path[3])
		}
	}
}
