package config

import (
	"strconv"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/value"
)

const referenceTag = "!reference"

// converter makes trees of what the YAML reader made. What aliases repeat stays one tree.
type converter struct {
	source *Source
	done   map[*yamlsource.Node]*tree
	slab   []tree
}

func (s *Source) converter() *converter {
	return &converter{source: s, done: map[*yamlsource.Node]*tree{}}
}

// new returns an empty tree. Trees are made many at a time, which is cheaper.
func (c *converter) new() *tree {
	if len(c.slab) == 0 {
		c.slab = make([]tree, 128)
	}
	t := &c.slab[0]
	c.slab = c.slab[1:]
	return t
}

func (c *converter) tree(n *yamlsource.Node) *tree {
	if n.Shared() {
		if t := c.done[n]; t != nil {
			return t
		}
	}
	t := c.new()
	*t = tree{raw: n, source: c.source, kind: n.Kind, text: n.Text, reference: n.Tag == referenceTag}
	switch n.Kind {
	case yamlsource.Boolean:
		t.text = strconv.FormatBool(n.Value().Bool())
	case yamlsource.Sequence:
		t.items = make([]item, len(n.Items))
		for i, it := range n.Items {
			t.items[i].value = c.tree(it)
		}
	case yamlsource.Mapping:
		t.entries = make([]entry, len(n.Entries))
		for i, e := range n.Entries {
			t.entries[i] = entry{key: c.key(e.Key), value: c.tree(e.Value)}
		}
	}
	t.weigh()
	if n.Shared() {
		c.done[n] = t
	}
	return t
}

// key makes a tree of a key, which is called what is written: a variable may be named NO.
func (c *converter) key(n *yamlsource.Node) *tree {
	t := c.new()
	*t = tree{raw: n, source: c.source, kind: n.Kind, text: n.Text, nodes: 1, depth: 1}
	return t
}

// weigh sets what a tree knows of its children.
func (t *tree) weigh() {
	nodes, depth, refers := 1, int16(0), t.reference
	for i := range t.items {
		child := t.items[i].value
		nodes, depth, refers = nodes+child.nodes, max(depth, child.depth), refers || child.refers
	}
	for i := range t.entries {
		e := &t.entries[i]
		nodes, depth, refers = nodes+e.key.nodes+e.value.nodes, max(depth, e.value.depth), refers || e.value.refers
	}
	t.nodes, t.depth, t.refers = nodes, depth+1, refers
}

// treeOf makes a tree of a value that is written nowhere.
func treeOf(v value.Value) *tree {
	t := &tree{made: true, text: v.Text()}
	switch v.Kind() {
	case value.Null:
		t.kind, t.text = yamlsource.Null, ""
	case value.Boolean:
		t.kind = yamlsource.Boolean
	case value.Number:
		t.kind = yamlsource.Number
	case value.String:
		t.kind = yamlsource.String
	case value.Array:
		t.kind, t.text = yamlsource.Sequence, ""
		for _, it := range v.Items() {
			t.items = append(t.items, item{value: treeOf(it)})
		}
	case value.Struct:
		t.kind, t.text = yamlsource.Mapping, ""
		for _, key := range v.Keys() {
			t.entries = append(t.entries, entry{key: treeOf(value.OfString(key)), value: treeOf(v.Fields()[key])})
		}
	}
	t.weigh()
	return t
}
