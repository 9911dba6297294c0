package workflow

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// maxProduct is how many combinations a matrix may have before `exclude` takes some away.
const maxProduct = 1 << 12

// maxFilters is how many items include and exclude may have, each.
const maxFilters = 256

// cell is one value of a matrix.
type cell struct {
	value value.Value
	texts []string // of the scalars in it, in the order of the text
	place diag.Span
}

// pair is a name with a cell, row what one leg is made of. The names in a row differ by more than case.
type (
	pair struct {
		name  string
		cell  cell
		extra bool // added by include: it is not part of the leg's name
	}
	row []pair
)

// matrix is a matrix with everything in it computed.
type matrix struct {
	vectors []vector
	include []row
	exclude []row
}

type vector struct {
	name  string
	cells []cell
	place diag.Span
}

func (r row) find(name string) int {
	return slices.IndexFunc(r, func(p pair) bool { return strings.EqualFold(p.name, name) })
}

// value is the row as the matrix context; null for a job without matrix.
func (r row) value() value.Value {
	if r == nil {
		return value.Value{}
	}
	fields := make(map[string]value.Value, len(r))
	for _, p := range r {
		fields[p.name] = p.cell.value
	}
	return value.OfStruct(fields)
}

// leaves are the texts that make the name of a leg.
func (r row) leaves() []string {
	var out []string
	for _, p := range r {
		if !p.extra {
			out = append(out, p.cell.texts...)
		}
	}
	return out
}

// legs computes a matrix that is written out, or partly, or is one expression.
func (ev *evaluation) legs(n *yamlsource.Node) []row {
	if isExpression(n) {
		v := ev.value(n)
		if v.Kind() != value.Struct {
			ev.unless(n, "the matrix must be a map, not %s", shownValue(v))
			return nil
		}
		return ev.build(n, matrixOf(v))
	}
	m := &matrix{}
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "include":
			m.include = ev.rows(e.Value, "include")
		case "exclude":
			m.exclude = ev.rows(e.Value, "exclude")
		default:
			m.vectors = append(m.vectors, vector{e.Key.Text, ev.cells(e), e.Value.Span})
		}
	}
	if len(ev.list) > 0 {
		return nil
	}
	return ev.build(n, m)
}

// cells computes the values below one name.
func (ev *evaluation) cells(e yamlsource.Entry) []cell {
	if isExpression(e.Value) {
		v := ev.value(e.Value)
		if v.Kind() != value.Array {
			ev.unless(e.Value, "%q in the matrix must be a list, not %s", e.Key.Text, shownValue(v))
		}
		var out []cell
		for _, item := range v.Items() {
			out = append(out, cellOf(item, e.Value.Span))
		}
		return out
	}
	if e.Value.Kind != yamlsource.Sequence {
		ev.unless(e.Value, "%q in the matrix must be a list, not %s", e.Key.Text, e.Value.Kind)
		return nil
	}
	var out []cell
	for _, item := range e.Value.Items {
		out = append(out, ev.cell(item))
	}
	return out
}

// cell computes one value. Where its text is known, so is the order of what is in it.
func (ev *evaluation) cell(n *yamlsource.Node) cell {
	c := cell{value: ev.value(n), place: n.Span}
	c.texts = ev.texts(n, nil)
	return c
}

func (ev *evaluation) texts(n *yamlsource.Node, out []string) []string {
	switch {
	case n.Kind == yamlsource.Sequence:
		for _, item := range n.Items {
			out = ev.texts(item, out)
		}
	case n.Kind == yamlsource.Mapping:
		for _, e := range n.Entries {
			out = ev.texts(e.Value, out)
		}
	default:
		out = append(out, textsOf(ev.value(n))...)
	}
	return out
}

// cellOf makes a cell of a value that was computed. The names in it have no order of their own.
func cellOf(v value.Value, place diag.Span) cell { return cell{v, textsOf(v), place} }

func textsOf(v value.Value) []string {
	var out []string
	switch v.Kind() {
	case value.Array:
		for _, item := range v.Items() {
			out = append(out, textsOf(item)...)
		}
	case value.Struct:
		for _, name := range v.Keys() {
			out = append(out, textsOf(v.Fields()[name])...)
		}
	default:
		if text := formatText(v); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// rows computes include or exclude.
func (ev *evaluation) rows(n *yamlsource.Node, what string) []row {
	if isExpression(n) {
		v := ev.value(n)
		if v.Kind() != value.Array {
			ev.unless(n, "%q must be a list, not %s", what, shownValue(v))
		}
		return rowsOf(v)
	}
	if n.Kind != yamlsource.Sequence {
		ev.unless(n, "%q must be a list of maps, not %s", what, n.Kind)
		return nil
	}
	var out []row
	for _, item := range n.Items {
		switch {
		case isExpression(item):
			v := ev.value(item)
			if IsUnknown(v.Str()) {
				ev.unless(item, "an item of %q must be a map, not %s", what, shownValue(v))
			}
			out = append(out, rowsOf(value.OfArray([]value.Value{v}))...)
		case item.Kind != yamlsource.Mapping || len(item.Entries) == 0:
			ev.fail(item.Span, "an item of %q must be a map that is not empty, not %s", what, item.Kind)
		default:
			r := row{}
			for _, e := range item.Entries {
				c := ev.cell(e.Value)
				c.place = e.Key.Span
				r = append(r, pair{name: e.Key.Text, cell: c})
			}
			out = append(out, r)
		}
	}
	return out
}

func rowsOf(v value.Value) []row {
	var out []row
	for _, item := range v.Items() {
		r := row{}
		for _, name := range item.Keys() {
			r = append(r, pair{name: name, cell: cellOf(item.Fields()[name], diag.Span{})})
		}
		out = append(out, r)
	}
	return out
}

// matrixOf reads a matrix that was computed as a whole. Its names are in the order of the alphabet.
func matrixOf(v value.Value) *matrix {
	m := &matrix{}
	for _, name := range v.Keys() {
		field := v.Fields()[name]
		switch name {
		case "include":
			m.include = rowsOf(field)
		case "exclude":
			m.exclude = rowsOf(field)
		default:
			vec := vector{name: name}
			for _, item := range field.Items() {
				vec.cells = append(vec.cells, cellOf(item, diag.Span{}))
			}
			m.vectors = append(m.vectors, vec)
		}
	}
	return m
}

// build makes the legs: all combinations of the vectors but those that are excluded, with what include adds to them, and then what include
// could not add to any.
func (ev *evaluation) build(n *yamlsource.Node, m *matrix) []row {
	at := func(place diag.Span) diag.Span {
		if place.IsZero() {
			return n.Span
		}
		return place
	}
	product := min(len(m.vectors), 1)
	for _, v := range m.vectors {
		if len(v.cells) == 0 {
			ev.fail(at(v.place), "%q in the matrix has no values", v.name)
			return nil
		}
		if product *= len(v.cells); product > maxProduct {
			ev.fail(n.Span, "the matrix has more than %d combinations", maxProduct)
			return nil
		}
	}
	if len(m.include) > maxFilters || len(m.exclude) > maxFilters {
		ev.fail(n.Span, "the matrix has more than %d items in `include` or `exclude`", maxFilters)
		return nil
	}
	if len(m.vectors)+len(m.include) == 0 {
		ev.fail(n.Span, "the matrix has no values: it needs a list below a name, or `include`")
		return nil
	}
	for _, x := range m.exclude {
		for _, p := range x {
			if !slices.ContainsFunc(m.vectors, func(v vector) bool { return strings.EqualFold(v.name, p.name) }) {
				ev.fail(at(p.cell.place), "%q is excluded, but is not a name in the matrix", p.name)
				return nil
			}
		}
	}
	legs := m.combinations(product)
	if len(legs) > MaxLegs {
		ev.fail(n.Span, "the matrix makes %d jobs, and %d is the most", len(legs), MaxLegs)
		return nil
	}
	return legs
}

func (m *matrix) combinations(product int) []row {
	var legs []row
	used := make([]bool, len(m.include))
	for i := range product {
		var leg row
		block := product
		for _, v := range m.vectors {
			block /= len(v.cells)
			leg = append(leg, pair{name: v.name, cell: v.cells[i/block%len(v.cells)]})
		}
		if slices.ContainsFunc(m.exclude, func(x row) bool { return len(x) > 0 && leg.matches(x) }) {
			continue
		}
		own := len(leg)
		for k, in := range m.include {
			if !leg[:own].matches(in) {
				continue
			}
			used[k] = true
			for _, p := range in {
				switch at := leg.find(p.name); {
				case at < 0:
					leg = append(leg, pair{name: p.name, cell: p.cell, extra: true})
				case at >= own:
					leg[at].cell = p.cell
				}
			}
		}
		legs = append(legs, leg)
	}
	for k, in := range m.include {
		if !used[k] && len(in) > 0 {
			legs = append(legs, m.ordered(in))
		}
	}
	return legs
}

// ordered puts the names of the matrix first, as GitHub does for the names of legs.
func (m *matrix) ordered(in row) row {
	var first, rest row
	for _, p := range in {
		if slices.ContainsFunc(m.vectors, func(v vector) bool { return strings.EqualFold(v.name, p.name) }) {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	return append(first, rest...)
}

// matches reports whether the row has every value of the filter that goes by a name of the row.
func (r row) matches(filter row) bool {
	for _, p := range filter {
		if at := r.find(p.name); at >= 0 && !same(r[at].cell.value, p.cell.value) {
			return false
		}
	}
	return true
}

// same compares a value with a filter as GitHub does: each scalar of the filter with what is at its place, by its rules for ==.
func same(v, filter value.Value) bool {
	switch filter.Kind() {
	case value.Struct:
		for name, want := range filter.Fields() {
			got, _ := ghexpr.Field(v, name)
			if !same(got, want) {
				return false
			}
		}
		return true
	case value.Array:
		for i, want := range filter.Items() {
			var got value.Value
			if items := v.Items(); i < len(items) {
				got = items[i]
			}
			if !same(got, want) {
				return false
			}
		}
		return true
	}
	e, err := ghexpr.Parse("matrix.a == matrix.b", nil)
	if err != nil {
		return false
	}
	pair := value.OfStruct(map[string]value.Value{"a": v, "b": filter})
	equal, err := e.Eval(ghexpr.Values{"matrix": pair})
	return err == nil && equal.Bool()
}
