package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// shape is what is known of a value before a run: the fields that it may have. Nil is nothing.
type shape struct {
	fields map[string]*shape // by names in lower case; nil is not a map, or unknown
	closed bool              // there are no other fields
}

// isKnown reports whether all fields are known.
func (s *shape) isKnown() bool { return s != nil && s.closed }

// isMap reports whether the value is a map whose fields are known.
func (s *shape) isMap() bool { return s.isKnown() && s.fields != nil }

func (s *shape) get(name string) *shape { return s.fields[strings.ToLower(name)] }

func (s *shape) names() []string { return slices.Sorted(maps.Keys(s.fields)) }

// at follows names; nil where they lead to nothing that is known.
func (s *shape) at(path []string) *shape {
	for _, name := range path {
		if !s.isMap() {
			return nil
		}
		s = s.get(name)
	}
	return s
}

// open are values of which nothing is known.
func open() *shape { return &shape{} }

// merge is what values of either shape have.
func merge(a, b *shape) *shape {
	if a == nil {
		return b
	}
	out := &shape{closed: a.closed && b.closed && (a.fields == nil) == (b.fields == nil)}
	if !out.closed || a.fields == nil {
		return out
	}
	out.fields = maps.Clone(a.fields)
	for name, s := range b.fields {
		out.fields[name] = merge(out.fields[name], s)
	}
	return out
}

// shapeOf is what a text says of its value.
func shapeOf(n *yamlsource.Node) *shape {
	switch {
	case n.Kind == yamlsource.Mapping:
		s := &shape{fields: map[string]*shape{}, closed: true}
		for _, e := range n.Entries {
			s.fields[strings.ToLower(e.Key.Text)] = shapeOf(e.Value)
			s.closed = s.closed && !hasExpression(e.Key.Text)
		}
		return s
	case n.Kind == yamlsource.Sequence, n.Kind == yamlsource.String && hasExpression(n.Text):
		return open()
	}
	return &shape{closed: true}
}

// contextShape is what the matrix context has in the jobs of a strategy.
func contextShape(strategy *yamlsource.Node) *shape {
	none := &shape{fields: map[string]*shape{}, closed: true}
	if strategy == nil {
		return none
	}
	if strategy.Kind != yamlsource.Mapping {
		return open()
	}
	matrix := strategy.Get("matrix")
	if matrix == nil {
		return none
	}
	if matrix.Kind != yamlsource.Mapping {
		return open()
	}
	for _, e := range matrix.Entries {
		name := strings.ToLower(e.Key.Text)
		switch {
		case name == "exclude":
		case name == "include" && e.Value.Kind != yamlsource.Sequence:
			return open()
		case name == "include":
			for _, item := range e.Value.Items {
				row := shapeOf(item)
				if !row.isMap() {
					return open()
				}
				for name, s := range row.fields {
					none.fields[name] = merge(none.fields[name], s)
				}
			}
		case e.Value.Kind != yamlsource.Sequence:
			none.fields[name] = open()
		default:
			for _, item := range e.Value.Items {
				none.fields[name] = merge(none.fields[name], shapeOf(item))
			}
			if len(e.Value.Items) == 0 {
				none.fields[name] = open()
			}
		}
	}
	return none
}
