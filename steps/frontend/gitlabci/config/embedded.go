package config

import (
	"fmt"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// Embedded is a part of a configuration that is in a language of its own, as the steps of `run:` are, in the form that readers of
// such languages take. It collects what they report, and tells of every problem where the part is from.
type Embedded struct {
	// Root is the part as a tree. Its nodes have the places of the configuration's, in whatever files those are.
	Root *yamlsource.Node

	part   Node
	nodes  map[*yamlsource.Node]Node
	places map[diag.Span]Node
	found  diag.List
}

// Embedded returns the node and all that it holds for a reader of another language.
func (n Node) Embedded() *Embedded {
	e := &Embedded{part: n, nodes: map[*yamlsource.Node]Node{}, places: map[diag.Span]Node{}}
	e.Root = e.build(n)
	return e
}

func (e *Embedded) build(n Node) *yamlsource.Node {
	var out yamlsource.Node
	if n.tree != nil && n.tree.raw != nil {
		out = *n.tree.raw // how a scalar is quoted is part of what diagnostics ask
	}
	out.Kind, out.Text, out.Span, out.Items, out.Entries = n.Kind(), n.Text(), n.Span(), nil, nil
	for _, item := range n.Items() {
		out.Items = append(out.Items, e.build(item))
	}
	for key, v := range n.Entries() {
		out.Entries = append(out.Entries, yamlsource.Entry{Key: e.build(key), Value: e.build(v)})
	}
	e.nodes[&out] = n
	if _, ok := e.places[out.Span]; !ok {
		e.places[out.Span] = n
	}
	return &out
}

// At returns the place of length characters of a scalar's text from the one at offset on, as far as they are written.
func (e *Embedded) At(n *yamlsource.Node, offset, length int) diag.Span {
	node := e.nodes[n]
	place := node.At(offset, length)
	if _, ok := e.places[place]; !ok {
		e.places[place] = node
	}
	return place
}

// Lines are the places of the lines of a scalar's text.
func (e *Embedded) Lines(n *yamlsource.Node) []diag.SourceLine { return e.nodes[n].Lines() }

// Report adds a problem at a place in the part.
func (e *Embedded) Report(place diag.Span, hint, format string, args ...any) {
	node, ok := e.places[place]
	if !ok {
		node = e.part
	}
	if !e.Full() {
		e.found = append(e.found, node.DiagnosticAt(place, hint, fmt.Sprintf(format, args...)))
	}
}

// Full reports whether the limit of problems is reached.
func (e *Embedded) Full() bool { return len(e.found) >= MaxProblems }

// Err returns what was reported, a diag.List in the order of the text, or nil.
func (e *Embedded) Err() error {
	if len(e.found) == 0 {
		return nil
	}
	list := append(diag.List(nil), e.found...)
	list.Sort()
	return list
}
