package rule

import (
	"slices"
	"strings"
	"sync/atomic"
)

// node is a part of a parsed expression: an operator with its operands, or a value.
type node struct {
	kind       kind
	start, end int
	text       string   // as in token
	pattern    *Pattern // of a tokenPattern
	left       *node    // the only operand of a tokenNot
	right      *node
	// recent is the pattern that a match found in a variable lately. It spares compiling it for every job.
	recent atomic.Pointer[Pattern]
	// guarded is set for a match whose pattern is a variable that a condition before it asks for: `$A && $B =~ $A`.
	guarded bool
}

// How close operators bind, closer ones higher. Values are closest.
const (
	bindOr = iota
	bindAnd
	bindCompare
	bindNot
	bindValue
)

func (k kind) binding() int {
	switch k {
	case tokenOr:
		return bindOr
	case tokenAnd:
		return bindAnd
	case tokenEqual, tokenNotEqual, tokenMatch, tokenNotMatch:
		return bindCompare
	case tokenNot:
		return bindNot
	default:
		return bindValue
	}
}

func (k kind) isOperator() bool { return k >= tokenEqual && k <= tokenOr }

func (k kind) String() string {
	for _, s := range symbols {
		if s.kind == k {
			return s.text
		}
	}
	return ""
}

// parser makes a tree of tokens. It recurses no deeper than there are tokens, which are bounded.
type parser struct {
	source string
	tokens []token
	opened []token // parentheses
}

func parse(source string, tokens []token) (*node, *Error) {
	p := &parser{source: source, tokens: tokens}
	if tokens[0].kind == tokenEnd {
		return nil, newError(source, 0, 0, "write a condition such as $NAME == \"text\", or leave the if out", "the expression is empty")
	}
	root, err := p.binary(bindOr)
	if err != nil {
		return nil, err
	}
	t := p.tokens[0]
	switch {
	case t.kind == tokenEnd:
		return root, nil
	case t.kind == tokenClose:
		return nil, p.error(t, "", "unmatched )")
	default:
		return nil, p.missingOperator(t)
	}
}

// binary parses operators that bind as close as given, or closer, from the left to the right.
func (p *parser) binary(binding int) (*node, *Error) {
	if binding > bindCompare {
		return p.unary()
	}
	left, err := p.binary(binding + 1)
	if err != nil {
		return nil, err
	}
	for p.tokens[0].kind.isOperator() && p.tokens[0].kind.binding() == binding {
		operator := p.take()
		right, err := p.binary(binding + 1)
		if err != nil {
			return nil, err
		}
		left = &node{kind: operator.kind, start: left.start, end: right.end, left: left, right: right}
		if operator.kind == tokenAnd {
			right.guard(left.left.asked(nil))
		}
	}
	return left, nil
}

// unary parses a value, a negation or a group.
func (p *parser) unary() (*node, *Error) {
	t := p.take()
	switch t.kind {
	case tokenNot:
		operand, err := p.unary()
		if err != nil {
			return nil, err
		}
		return &node{kind: tokenNot, start: t.start, end: operand.end, left: operand}, nil
	case tokenOpen:
		return p.group(t)
	case tokenPattern:
		pattern, ok, err := ParsePattern(t.text)
		if err != nil || !ok {
			reason := "it has a line break"
			if err != nil {
				reason = err.Error()
			}
			return nil, p.error(t, "GitLab's patterns are RE2, which knows no lookaround and no backreferences", "the pattern is not valid: "+reason)
		}
		return &node{kind: t.kind, start: t.start, end: t.end, text: t.text, pattern: pattern}, nil
	case tokenInput, tokenVariable, tokenString, tokenNull, tokenTrue, tokenFalse:
		return &node{kind: t.kind, start: t.start, end: t.end, text: t.text}, nil
	case tokenEnd:
		return nil, p.error(t, "", "the expression ends where a value is expected")
	case tokenClose:
		return nil, p.error(t, "", "a value is expected before )")
	default:
		hint := ""
		if t.kind == tokenEqual || t.kind == tokenMatch || t.kind == tokenNotEqual || t.kind == tokenNotMatch {
			hint = "write a variable before it, such as $NAME " + t.kind.String() + " …"
		}
		return nil, p.error(t, hint, "a value is expected before "+t.kind.String())
	}
}

// group parses what is in parentheses.
func (p *parser) group(open token) (*node, *Error) {
	p.opened = append(p.opened, open)
	inner, err := p.binary(bindOr)
	if err != nil {
		return nil, err
	}
	t := p.take()
	switch t.kind {
	case tokenClose:
	case tokenEnd:
		open := p.opened[len(p.opened)-1]
		return nil, p.error(open, "add a ) where the group ends", "unmatched (")
	default:
		return nil, p.missingOperator(t)
	}
	p.opened = p.opened[:len(p.opened)-1]
	return inner, nil
}

// take returns the next token. The end stays.
func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) missingOperator(t token) *Error {
	return p.error(t, "write ==, !=, =~ or !~ to compare, && or || to join", "an operator is expected before "+excerpt(p.source[t.start:t.end]))
}

func (p *parser) error(t token, hint, message string) *Error {
	return newError(p.source, t.start, t.end, hint, "%s", message)
}

// walk calls visit for the node and all below it.
func (n *node) walk(visit func(*node)) {
	if n == nil {
		return
	}
	visit(n)
	n.left.walk(visit)
	n.right.walk(visit)
}

// write writes the node with no more parentheses than it needs.
func (n *node) write(b *strings.Builder) {
	switch n.kind {
	case tokenVariable:
		b.WriteString("$" + n.text)
	case tokenInput:
		b.WriteString("$[[ inputs." + n.text + " ]]")
	case tokenString:
		mark := `"`
		if strings.Contains(n.text, mark) {
			mark = "'" // a text cannot hold both: one of them ended it
		}
		b.WriteString(mark + n.text + mark)
	case tokenPattern:
		b.WriteString(n.text)
	case tokenNull:
		b.WriteString("null")
	case tokenTrue:
		b.WriteString("true")
	case tokenFalse:
		b.WriteString("false")
	case tokenNot:
		b.WriteString("!")
		n.left.writeWithin(b, bindNot)
	default:
		n.left.writeWithin(b, n.kind.binding())
		b.WriteString(" " + n.kind.String() + " ")
		n.right.writeWithin(b, n.kind.binding()+1)
	}
}

// writeWithin writes the node as an operand of one that takes what binds as close as given.
func (n *node) writeWithin(b *strings.Builder, binding int) {
	if n.kind.binding() >= binding {
		n.write(b)
		return
	}
	b.WriteString("(")
	n.write(b)
	b.WriteString(")")
}

// asked adds the variables that are not null, or not empty, where the condition holds.
func (n *node) asked(names []string) []string {
	switch n.kind {
	case tokenVariable:
		return append(names, n.text)
	case tokenAnd:
		return n.right.asked(n.left.asked(names))
	case tokenNotEqual:
		if n.left.kind == tokenVariable && (n.right.kind == tokenNull || n.right.kind == tokenString && n.right.text == "") {
			return append(names, n.left.text)
		}
	}
	return names
}

// guard marks the matches whose patterns are in variables of these names.
func (n *node) guard(names []string) {
	if len(names) == 0 {
		return
	}
	n.walk(func(m *node) {
		if (m.kind == tokenMatch || m.kind == tokenNotMatch) && m.right.kind == tokenVariable && slices.Contains(names, m.right.text) {
			m.guarded = true
		}
	})
}
