package config

import (
	"iter"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// Node is a value of the resolved configuration, and the way it came there. It is small and never changes: pass it by value.
// The zero Node is what Get returns for a key that is not there.
type Node struct {
	tree *tree
	via  *hop
}

// tree is what a Node looks at. Trees are shared by all jobs that have the value, so they never change once they are made.
type tree struct {
	raw     *yamlsource.Node // what is written; nil for a value that is written nowhere, such as an input of a command line
	source  *Source
	text    string
	items   []item
	entries []entry
	// nodes is how many values the tree holds, itself counted, each as often as it appears.
	nodes int
	depth int16
	kind  yamlsource.Kind
	// refers is set when the tree is or holds a !reference.
	refers    bool
	reference bool // the tree is one
	bare      bool // see Node.IsBare
	made      bool // the text is not what is written at the place
}

// item and entry are how a tree holds another one. The hops say how the value came from where it is written to here; there are
// none for what is written right here.
type item struct {
	value *tree
	via   *hop
}

type entry struct {
	key, value *tree
	via        *hop
}

// Exists reports whether the node is a value: null is one, the zero Node is not.
func (n Node) Exists() bool { return n.tree != nil }

// Kind is what the value is; yamlsource.Null for the zero Node.
func (n Node) Kind() yamlsource.Kind {
	if n.tree == nil {
		return yamlsource.Null
	}
	return n.tree.kind
}

// IsNull reports whether there is no value, or null: GitLab takes a keyword that is null as one that is not there.
func (n Node) IsNull() bool { return n.Kind() == yamlsource.Null }

// Text is the text of a scalar, unquoted. That of a boolean is true or false, however it is written.
func (n Node) Text() string {
	if n.tree == nil {
		return ""
	}
	return n.tree.text
}

// IsBare reports whether the node is the string of an input that is unquoted and alone for the whole value. GitLab reads
// such a text again as YAML, so where a keyword wants a boolean or a number, the text "true" or "2" is one.
func (n Node) IsBare() bool { return n.tree != nil && n.tree.bare }

// Len is how many items a list or entries a map has.
func (n Node) Len() int {
	if n.tree == nil {
		return 0
	}
	return len(n.tree.items) + len(n.tree.entries)
}

// Items are the items of a list, with their indexes.
func (n Node) Items() iter.Seq2[int, Node] {
	return func(yield func(int, Node) bool) {
		if n.tree == nil {
			return
		}
		for i, it := range n.tree.items {
			if !yield(i, Node{it.value, it.via.then(n.via)}) {
				return
			}
		}
	}
}

// Flat are the items of a list in which lists stand for their items, as scripts and rules may be written and as !reference
// makes them. A value that is no list is its own only item, null has none. The first number is how deep the lists nest that
// the item is in, from 1 on.
func (n Node) Flat() iter.Seq2[int, Node] {
	return func(yield func(int, Node) bool) {
		if n.Kind() != yamlsource.Sequence {
			if !n.IsNull() {
				yield(1, n)
			}
			return
		}
		n.flat(1, yield)
	}
}

func (n Node) flat(level int, yield func(int, Node) bool) bool {
	for _, it := range n.Items() {
		if it.Kind() == yamlsource.Sequence {
			if !it.flat(level+1, yield) {
				return false
			}
		} else if !yield(level, it) {
			return false
		}
	}
	return true
}

// Entries are the keys and values of a map, in order.
func (n Node) Entries() iter.Seq2[Node, Node] {
	return func(yield func(Node, Node) bool) {
		if n.tree == nil {
			return
		}
		for _, e := range n.tree.entries {
			via := e.via.then(n.via)
			if !yield(Node{e.key, via}, Node{e.value, via}) {
				return
			}
		}
	}
}

// Get returns the value of a key, and the zero Node when the node is not a map or has no such key.
func (n Node) Get(key string) Node {
	_, v := n.Entry(key)
	return v
}

// Entry returns a key, whose place is where a problem with a keyword as a whole is shown, and its value.
func (n Node) Entry(key string) (k, v Node) {
	if n.tree == nil {
		return Node{}, Node{}
	}
	if e := n.tree.get(key); e != nil {
		via := e.via.then(n.via)
		return Node{e.key, via}, Node{e.value, via}
	}
	return Node{}, Node{}
}

func (t *tree) get(key string) *entry {
	for i := range t.entries {
		if t.entries[i].key.text == key {
			return &t.entries[i]
		}
	}
	return nil
}

// Span is where the value is written.
func (n Node) Span() diag.Span {
	if n.tree == nil {
		return diag.Span{}
	}
	return n.tree.span()
}

func (t *tree) span() diag.Span {
	switch {
	case t.raw != nil:
		return t.raw.Span
	case t.source != nil:
		return diag.Span{File: t.source.Name}
	default:
		return diag.Span{}
	}
}

// At is the place of length characters of a scalar's text from the one at offset on, as far as they are written: text that
// inputs made is shown as a whole.
func (n Node) At(offset, length int) diag.Span {
	if n.tree == nil || n.tree.raw == nil || n.tree.made {
		return n.Span()
	}
	return n.tree.source.file.At(n.tree.raw, offset, length)
}

// Lines are the places of the lines of a scalar's text, as far as they are written: text that inputs made has one place.
func (n Node) Lines() []diag.SourceLine {
	switch {
	case n.tree == nil || n.tree.source == nil:
		return nil
	case n.tree.raw == nil || n.tree.made:
		d := n.tree.source.diagnostic(n.Span(), "", "")
		return []diag.SourceLine{{Span: d.Span, Source: d.Source}}
	}
	return n.tree.source.file.Lines(n.tree.raw)
}

// Diagnostic says that something is wrong with the node. The message ends with how it came there.
func (n Node) Diagnostic(hint, message string) diag.Diagnostic {
	return n.DiagnosticAt(n.Span(), hint, message)
}

// DiagnosticAt is Diagnostic about a part of the node, which At gave.
func (n Node) DiagnosticAt(place diag.Span, hint, message string) diag.Diagnostic {
	if way := n.way(); way != "" {
		message += " (" + way + ")"
	}
	if n.tree == nil || n.tree.source == nil {
		return diag.Diagnostic{Span: place, Message: message, Hint: hint}
	}
	return n.tree.source.diagnostic(place, hint, message)
}

// Value returns the node as a value. Keys become field names by their text.
func (n Node) Value() value.Value {
	if n.tree == nil {
		return value.Value{}
	}
	return n.tree.value()
}

func (t *tree) value() value.Value {
	switch t.kind {
	case yamlsource.Sequence:
		items := make([]value.Value, len(t.items))
		for i, it := range t.items {
			items[i] = it.value.value()
		}
		return value.OfArray(items)
	case yamlsource.Mapping:
		fields := make(map[string]value.Value, len(t.entries))
		for _, e := range t.entries {
			fields[e.key.text] = e.value.value()
		}
		return value.OfStruct(fields)
	default:
		return (&yamlsource.Node{Kind: t.kind, Text: t.text}).Value()
	}
}
