package workflow

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/value"
)

// maxNameLength is how long GitHub lets the name of a leg be, in characters.
const maxNameLength = 100

// strategy checks the shape of a strategy, and builds a matrix that nothing in is computed.
func (r *reader) strategy(n *yamlsource.Node) {
	if n == nil {
		return
	}
	r.template(n, availableJob)
	if isExpression(n) || !r.keys(n, `"strategy"`, "fail-fast", "max-parallel", "matrix") {
		return
	}
	r.booleanOr(n.Get("fail-fast"), `"fail-fast"`)
	if most := n.Get("max-parallel"); most != nil && !isExpression(most) {
		if v := literal(most); most.Kind != yamlsource.Number || v.Float() < 1 || v.Float() != float64(int(v.Float())) {
			r.report(most.Span, "", `"max-parallel" must be a whole number above 0, not %s`, r.shown(most))
		}
	}
	matrix := n.Get("matrix")
	if matrix == nil || isExpression(matrix) {
		return
	}
	if matrix.Kind != yamlsource.Mapping {
		r.report(matrix.Span, "write a list of values below a name: os: [ubuntu-latest]", "a matrix must be a map, not %s", matrix.Kind)
		return
	}
	if computed(matrix) {
		r.matrixShape(matrix)
		return
	}
	ev := r.w.evaluate(nil)
	ev.legs(matrix)
	for _, d := range ev.list {
		r.report(d.Span, d.Hint, "%s", d.Message)
	}
}

// matrixShape checks what is written out of a matrix that is partly computed.
func (r *reader) matrixShape(n *yamlsource.Node) {
	for _, e := range n.Entries {
		if e.Value.Kind != yamlsource.Sequence && !isExpression(e.Value) {
			r.report(e.Value.Span, "write [ ] around it", "%q in a matrix must be a list, not %s", e.Key.Text, e.Value.Kind)
		}
	}
}

// computed reports whether there is an expression anywhere in a node.
func computed(n *yamlsource.Node) bool {
	if n.Kind == yamlsource.String && hasExpression(n.Text) || slices.ContainsFunc(n.Items, computed) {
		return true
	}
	return slices.ContainsFunc(n.Entries, func(e yamlsource.Entry) bool { return hasExpression(e.Key.Text) || computed(e.Value) })
}

// Legs are the runs that a job's strategy makes of it.
type Legs struct {
	FailFast    bool   // the first one that fails cancels the others
	MaxParallel int    // how many may be under way at once; 0 is all
	List        []*Leg // empty when everything of the matrix is excluded: the job is skipped then
}

// Leg is one run of a job.
type Leg struct {
	Name     string      // for people, as GitHub shows it: "test (ubuntu-latest, 20)"
	Index    int         // from 0
	Matrix   value.Value // the matrix context; null in a job without
	Strategy value.Value // the strategy context
}

// Legs computes the job's strategy. A job without one has a single leg. The contexts are github, needs, vars and inputs. The errors are
// diag.Lists: a matrix that is not one, more than MaxLegs legs, an expression that cannot be computed.
func (j *Job) Legs(c Contexts) (*Legs, error) {
	ev := j.evaluate(nil, c)
	legs := &Legs{FailFast: true}
	rows := []row{nil}
	if n := j.node.strategy; n != nil {
		s := n
		if isExpression(n) {
			s = nil
			if v := ev.value(n); v.Kind() == value.Struct {
				rows = legs.fromValue(ev, n, v)
			} else {
				ev.unless(n, "the strategy must be a map, not %s", shownValue(v))
			}
		}
		if s != nil {
			if failFast := s.Get("fail-fast"); failFast != nil {
				legs.FailFast = ev.boolean(failFast, `"fail-fast"`)
			}
			if most := s.Get("max-parallel"); most != nil {
				legs.MaxParallel = int(ev.number(most, `"max-parallel"`))
			}
			if matrix := s.Get("matrix"); matrix != nil {
				rows = ev.legs(matrix)
			}
		}
	}
	for i, row := range rows {
		leg := &Leg{Index: i, Matrix: row.value(), Strategy: legs.context(i, len(rows))}
		leg.Name = j.legName(leg, row, c, ev)
		legs.List = append(legs.List, leg)
	}
	if err := ev.err(); err != nil {
		return nil, err
	}
	return legs, nil
}

// fromValue reads a strategy that is one expression.
func (l *Legs) fromValue(ev *evaluation, n *yamlsource.Node, v value.Value) []row {
	fields := v.Fields()
	if b, ok := fields["fail-fast"]; ok {
		l.FailFast = b.Bool()
	}
	l.MaxParallel = int(fields["max-parallel"].Float())
	matrix, ok := fields["matrix"]
	if !ok {
		return []row{nil}
	}
	return ev.build(n, matrixOf(matrix))
}

// context is the strategy context of a leg.
func (l *Legs) context(index, total int) value.Value {
	most := l.MaxParallel
	if most == 0 {
		most = total
	}
	return value.OfStruct(map[string]value.Value{
		"fail-fast": value.OfBool(l.FailFast), "max-parallel": value.OfInt(int64(most)),
		"job-index": value.OfInt(int64(index)), "job-total": value.OfInt(int64(total)),
	})
}

// legName is the name of a leg: one that is computed as it is, any other with the values of the matrix behind it.
func (j *Job) legName(leg *Leg, r row, c Contexts, ev *evaluation) string {
	name := j.ID
	if n := j.node.name; n != nil {
		named := j.evaluate(leg, c)
		text := strings.TrimSpace(named.string(n))
		if len(ev.list) == 0 {
			ev.list = append(ev.list, named.list...)
		}
		if hasExpression(n.Text) && text != "" {
			return text
		}
		if text != "" {
			name = text
		}
	}
	if parts := r.leaves(); len(parts) > 0 {
		name += " (" + strings.Join(parts, ", ") + ")"
	}
	if runes := []rune(name); len(runes) > maxNameLength {
		name = string(runes[:maxNameLength-3]) + "..."
	}
	return name
}
