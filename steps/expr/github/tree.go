package github

import "github.com/rungci/rung/steps/value"

// Tree is an expression taken apart, for those who write it in another language.
type Tree struct {
	Kind  TreeKind
	Text  string      // of a context its name, of a call the function's, of a comparison the operator
	Value value.Value // of a literal
	Args  []Tree      // operands; of an index what is indexed and the index, which is missing in an object filter
}

// TreeKind is what a Tree is.
type TreeKind string

// The kinds of Tree. And and Or have two operands or more.
const (
	Literal    TreeKind = "literal"
	Context    TreeKind = "context"
	Index      TreeKind = "index"
	FunctionOf TreeKind = "call"
	Not        TreeKind = "not"
	Comparison TreeKind = "comparison"
	And        TreeKind = "and"
	Or         TreeKind = "or"
)

var treeKinds = map[nodeKind]TreeKind{
	literalNode: Literal, contextNode: Context, indexNode: Index, callNode: FunctionOf, notNode: Not, compareNode: Comparison, andNode: And, orNode: Or,
}

// Tree takes the expression apart.
func (e *Expr) Tree() Tree { return treeOf(e.root) }

func treeOf(n *node) Tree {
	t := Tree{Kind: treeKinds[n.kind], Text: n.text, Value: n.value}
	for _, arg := range n.args {
		t.Args = append(t.Args, treeOf(arg))
	}
	return t
}

// Path is what a tree that is nothing but a context and names refers to: github, event, action. ok is false for any other.
func (t Tree) Path() (path []string, ok bool) {
	switch {
	case t.Kind == Context:
		return []string{t.Text}, true
	case t.Kind != Index || len(t.Args) != 2 || t.Args[1].Kind != Literal || t.Args[1].Value.Kind() != value.String:
		return nil, false
	}
	path, ok = t.Args[0].Path()
	return append(path, t.Args[1].Value.Str()), ok
}
