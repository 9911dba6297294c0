package expr

import "github.com/rungci/rung/steps/value"

// node is a part of a parsed expression.
type node interface {
	span() (start, end int)
	eval(ev *evaluation) (value.Value, error)
}

// at is where a node is in the source, in bytes.
type at struct{ start, end int }

func (a at) span() (start, end int) { return a.start, a.end }

type (
	// literal is a value that the source spells out.
	literal struct {
		at
		value value.Value
	}
	// interpolation is a double-quoted string that holds expressions.
	interpolation struct {
		at
		pieces []piece
	}
	// piece is text or, when inner is set, an expression.
	piece struct {
		text  string
		inner node
	}
	// variable is a top-level name.
	variable struct {
		at
		name string
	}
	// group is an expression in parentheses. It is kept so that messages show the source as it was written.
	group struct {
		at
		inner node
	}
	call struct {
		at
		name string
		args []node
	}
	// path is a value and the attributes and indexes that lead into it.
	path struct {
		at
		root  node
		steps []access
	}
	// access is an attribute or, when index is set, an index; end is where it ends in the source.
	access struct {
		name  string
		index node
		end   int
	}
	unary struct {
		at
		operator string
		operand  node
	}
	// chain is a row of operands joined by binary operators of one precedence, evaluated from left to right.
	chain struct {
		at
		first node
		rest  []term
	}
	term struct {
		operator string
		position int // of the operator
		operand  node
	}
	array struct {
		at
		items []node
	}
	object struct {
		at
		fields []field
	}
	field struct{ key, value node }
)

func nameLiteral(tok token) node {
	return &literal{at{tok.start, tok.end}, value.OfString(tok.text)}
}
