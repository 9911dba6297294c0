package convert

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/value"
)

func formatDefault(v value.Value) string { return ghexpr.Text(v) }

// parallel writes a strategy as parallel:matrix, and makes its names known. defaults are variables of legs that have no value for them.
func (s *scope) parallel(out *mapping, strategy *yamlsource.Node) (defaults []string) {
	if strategy == nil {
		return nil
	}
	for _, key := range []string{"fail-fast", "max-parallel"} {
		if n := strategy.Get(key); n != nil && !(key == "fail-fast" && n.Text == "false") {
			out.remark(s.note(n.Span, "%s is left out: GitLab runs all jobs of a matrix, as many at a time as there are runners", key))
		}
	}
	matrix := strategy.Get("matrix")
	if strategy.Kind != yamlsource.Mapping || computed(matrix) {
		out.remark(s.note(strategy.Span, "the matrix is left out: it is computed when the workflow runs"))
		return nil
	}
	if matrix == nil {
		return nil
	}
	legs, err := s.job.Legs(workflow.Contexts{})
	if err != nil || len(legs.List) == 0 || len(legs.List) > keyword.MaxParallel {
		out.remark(s.note(matrix.Span, "the matrix is left out: it makes %s, and GitLab takes 1 to %d", "no jobs or too many", keyword.MaxParallel))
		return nil
	}
	rows := make([]map[string]string, len(legs.List))
	var order []string
	for i, leg := range legs.List {
		rows[i] = map[string]string{}
		s.flatten(rows[i], &order, nil, leg.Matrix, strategyOrder(matrix))
	}
	if n := matrix.Get("include"); n == nil && matrix.Get("exclude") == nil && flat(matrix) {
		var m mapping
		for _, e := range matrix.Entries {
			var values list
			for _, item := range e.Value.Items {
				values = append(values, ghexpr.Text(item.Value()))
			}
			m.add(identifier(e.Key.Text), values)
		}
		out.add("parallel", mapping{{nil, "matrix", list{m}}})
		return nil
	}
	var entries list
	for _, row := range rows {
		var m mapping
		for _, name := range order {
			if text, ok := row[name]; ok && text != "" {
				m.add(name, text)
			} else if !slices.Contains(defaults, name) {
				defaults = append(defaults, name)
			}
		}
		if len(m) == 0 { // GitLab takes no empty entry
			m.add(order[0], list{""})
		}
		entries = append(entries, m)
	}
	out.add("parallel", mapping{{nil, "matrix", entries}})
	return defaults
}

// strategyOrder are the names of a matrix in the order of the text.
func strategyOrder(matrix *yamlsource.Node) []string {
	var out []string
	add := func(n *yamlsource.Node) {
		for _, e := range n.Entries {
			if e.Key.Text != "include" && e.Key.Text != "exclude" && !slices.Contains(out, e.Key.Text) {
				out = append(out, e.Key.Text)
			}
		}
	}
	add(matrix)
	if include := matrix.Get("include"); include != nil {
		for _, item := range include.Items {
			add(item)
		}
	}
	return out
}

// flatten makes variables of the values of a leg, those inside of maps too.
func (s *scope) flatten(row map[string]string, order *[]string, path []string, v value.Value, names []string) {
	for _, name := range append(slices.Clone(names), v.Keys()...) {
		item, ok := v.Fields()[name]
		if !ok {
			continue
		}
		at := append(slices.Clone(path), name)
		if item.Kind() == value.Struct {
			s.flatten(row, order, at, item, nil)
			continue
		}
		text := ghexpr.Text(item)
		if item.Kind() == value.Array {
			text = string(item.AppendJSON(nil))
		}
		id := identifier(strings.Join(at, "_"))
		row[id] = text
		if !slices.Contains(*order, id) {
			*order = append(*order, id)
		}
		key := strings.ToLower(strings.Join(at, "."))
		known := s.matrix[key]
		if known == nil {
			known = &variable{name: id, always: true, boolean: true}
			s.matrix[key] = known
		}
		known.boolean = known.boolean && item.Kind() == value.Boolean
	}
}

// flat reports whether a matrix has nothing but lists of texts.
func flat(matrix *yamlsource.Node) bool {
	return !slices.ContainsFunc(matrix.Entries, func(e yamlsource.Entry) bool {
		return slices.ContainsFunc(e.Value.Items, func(n *yamlsource.Node) bool {
			return !n.Kind.IsScalar() || n.Kind == yamlsource.Null || n.Text == ""
		})
	})
}

// computed reports whether there is an expression anywhere in a node.
func computed(n *yamlsource.Node) bool {
	if n == nil {
		return false
	}
	return n.Kind == yamlsource.String && ghexpr.Has(n.Text) || slices.ContainsFunc(n.Items, computed) ||
		slices.ContainsFunc(n.Entries, func(e yamlsource.Entry) bool { return computed(e.Value) })
}
