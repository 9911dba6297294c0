package yamlsource

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/rungci/rung/steps/diag"
)

// builder turns the library's tree into ours: it resolves aliases and merge keys, checks scalars and keys, and keeps the
// budget.
type builder struct {
	file    *File
	options Options
	done    map[*yaml.Node]*Node // anchored nodes; nil while one is being built
	spent   weight
	fatal   *diag.Diagnostic // set when the budget is gone: nothing after it counts
}

// weight is what a node costs when it is in the tree once more.
type weight struct{ nodes, bytes, depth int }

// document returns the root of a document. Its error means that the whole text is refused.
func (b *builder) document(doc *yaml.Node) (*Node, *diag.Diagnostic) {
	b.done = map[*yaml.Node]*Node{}
	if len(doc.Content) == 0 {
		return &Node{Span: diag.Span{File: b.file.Name, Line: doc.Line, Column: doc.Column, Length: 1}}, b.fatal
	}
	return b.node(doc.Content[0], 0), b.fatal
}

func (b *builder) node(y *yaml.Node, level int) *Node {
	n := &Node{style: styleOf(y)}
	if b.fatal != nil {
		return n
	}
	if y.Kind == yaml.AliasNode {
		return b.alias(y, level)
	}
	if y.Anchor != "" {
		b.done[y] = nil
	}
	n.weight.nodes = 1
	switch y.Kind {
	case yaml.MappingNode:
		n.Kind = Mapping
	case yaml.SequenceNode:
		n.Kind = Sequence
	default:
		n.Text = y.Value
		n.weight.bytes = len(y.Value)
		n.Kind = b.kindOf(y)
	}
	n.start, n.Span = b.file.text.node(n, y.Line, y.Column)
	if n.Kind.IsScalar() {
		b.checkScalar(n, y)
		if b.file.text != b.file.original {
			n.Text = unveil(n.Text)
		}
	}
	b.checkTag(n, y)
	if level > MaxDepth {
		b.refuse(n.Span, "values nest deeper than %d levels, which is the limit", MaxDepth)
	}
	b.spend(n.Span, weight{nodes: 1})
	switch y.Kind {
	case yaml.MappingNode:
		first := b.mapping(n, y, level)
		if y.Style&yaml.FlowStyle == 0 && first != nil {
			n.Span = first.Span
		}
	case yaml.SequenceNode:
		n.Items = make([]*Node, 0, len(y.Content))
		for i, item := range y.Content {
			child := b.node(item, level+1)
			y.Content[i] = nil // the two trees are never both whole
			n.Items = append(n.Items, child)
			n.weight.add(child.weight)
		}
	}
	if y.Anchor != "" {
		b.done[y] = n
	}
	return n
}

func styleOf(y *yaml.Node) style {
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		return doubleQuoted
	case y.Style&yaml.SingleQuotedStyle != 0:
		return singleQuoted
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return block
	default:
		return plain
	}
}

func (b *builder) kindOf(y *yaml.Node) Kind {
	if b.options.YAML11 && y.Style == 0 && (isYes(y.Value) || isNo(y.Value)) {
		return Boolean
	}
	switch y.Tag {
	case "!!null":
		return Null
	case "!!bool":
		return Boolean
	case "!!int", "!!float":
		return Number
	default:
		return String
	}
}

// checkScalar reports a scalar that is not what its tag says, and makes it a string.
func (b *builder) checkScalar(n *Node, y *yaml.Node) {
	problem := ""
	switch y.Tag {
	case "!!null":
		if !isNull(n.Text) {
			problem = fmt.Sprintf("%q is not null", n.Text)
		}
	case "!!bool":
		if !isTrue(n.Text) && !isFalse(n.Text) {
			problem = fmt.Sprintf("%q is not a boolean", n.Text)
		}
	case "!!int", "!!float":
		v, err := number(n.Text)
		if err != nil {
			problem = err.Error()
		} else if _, whole := v.Integer(); y.Tag == "!!int" && !whole && y.Style&yaml.TaggedStyle != 0 {
			problem = n.Text + " is not a whole number"
		}
	}
	if problem != "" {
		n.Kind = String
		b.file.Report(n.Span, "quote it to make it a string", "%s", problem)
	}
}

// checkTag keeps an allowed local tag and reports all others that are not of the core schema.
func (b *builder) checkTag(n *Node, y *yaml.Node) {
	if y.Style&yaml.TaggedStyle == 0 {
		return
	}
	scalar := y.Kind == yaml.ScalarNode
	switch y.Tag {
	case "!!null", "!!bool", "!!int", "!!float", "!!str":
		if scalar {
			return
		}
	case "!!seq":
		if y.Kind == yaml.SequenceNode {
			return
		}
	case "!!map":
		if y.Kind == yaml.MappingNode {
			return
		}
	default:
		if slices.Contains(b.options.Tags, y.Tag) {
			n.Tag = y.Tag
			return
		}
	}
	place := diag.Span{File: b.file.Name, Line: y.Line, Column: y.Column, Length: len([]rune(y.Tag))}
	b.file.Report(place, "delete the tag", "the tag %s is not supported here", y.Tag)
}

// alias returns the node that the alias stands for: the same one, not a copy.
func (b *builder) alias(y *yaml.Node, level int) *Node {
	place := diag.Span{File: b.file.Name, Line: y.Line, Column: y.Column, Length: utf8.RuneCountInString(y.Value) + 1}
	target, known := b.done[y.Alias]
	if target == nil {
		if known {
			b.refuse(place, "*%s is inside the value that it repeats", y.Value)
		} else {
			b.refuse(place, "*%s repeats a value that is not in this document", y.Value)
		}
		return &Node{Span: place}
	}
	b.repeat(place, target, level)
	target.shared = true
	return target
}

// repeat charges the budget for one more appearance of the node at the level.
func (b *builder) repeat(place diag.Span, n *Node, level int) {
	if level+n.weight.depth > MaxDepth {
		b.refuse(place, "with its aliases followed, the value nests deeper than %d levels, which is the limit", MaxDepth)
	}
	b.spend(place, n.weight)
}

func (b *builder) spend(place diag.Span, w weight) {
	b.spent.nodes += w.nodes
	if b.spent.nodes > MaxNodes {
		b.refuse(place, "the file holds more than %d values with its aliases followed, which is the limit", MaxNodes)
	}
	// A node that is built is spent without its bytes: only repeated text is charged, the rest is bounded by MaxSize.
	b.spent.bytes += w.bytes
	if b.spent.bytes > MaxAliasedText {
		b.refuse(place, "aliases repeat more than %d bytes of text, which is the limit", MaxAliasedText)
	}
}

func (b *builder) refuse(place diag.Span, format string, args ...any) {
	if b.fatal == nil {
		d := b.file.Diagnostic(place, "", fmt.Sprintf(format, args...))
		b.fatal = &d
	}
}

func (w *weight) add(child weight) {
	w.nodes += child.nodes
	w.bytes += child.bytes
	w.depth = max(w.depth, child.depth+1)
}
