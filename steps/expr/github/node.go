package github

import "github.com/rungci/rung/steps/value"

type nodeKind uint8

const (
	literalNode nodeKind = iota // value
	contextNode                 // text is its name, in lower case
	indexNode                   // args: what is indexed, and the index; or only the first, for all items
	callNode                    // text is the function's name, as in signatures
	notNode
	compareNode // text is the operator
	andNode     // args: two or more
	orNode
)

// node is an operand or operator with its operands.
type node struct {
	kind       nodeKind
	text       string
	value      value.Value
	args       []*node
	start, end int // in bytes of the source
	depth      int // of the tree below
}
