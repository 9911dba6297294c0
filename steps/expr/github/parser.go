package github

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

// Expr is a parsed expression. It never changes, so several goroutines may evaluate it at once.
type Expr struct {
	source     string // the whole text that the expression is in, which offsets in errors count from
	start, end int    // where in source, in bytes, without ${{ and }}
	root       *node
	calls      []name
	uses       []Reference
}

// name is a function that an expression calls.
type name struct {
	text       string // as in signatures
	start, end int
}

// Parse reads an expression without ${{ }} around it. available says what it may use; nil is all there is. Errors are of type *Error.
func Parse(source string, available *Available) (*Expr, error) {
	e, err := expressions.get(source, func() (*Expr, error) { return parse(source, 0, len(source)) })
	if err == nil {
		err = e.check(available)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// parser reads source[pos:end].
type parser struct {
	source   string
	pos, end int
	tok      token
	calls    []name
	uses     []Reference
}

func parse(source string, start, end int) (*Expr, error) {
	if text := strings.TrimSpace(source[start:end]); len(text) > MaxLength && utf8.RuneCountInString(text) > MaxLength {
		return nil, newError(source, start, start, "split it, or compute it in a step", "the expression is longer than %d characters", MaxLength)
	}
	p := &parser{source: source, pos: start, end: end}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tokenEnd {
		return nil, newError(source, start, end, "", "expected an expression")
	}
	root, err := p.binary(1)
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokenEnd {
		return nil, p.unexpected()
	}
	return &Expr{source: source, start: start, end: end, root: root, calls: p.calls, uses: p.uses}, nil
}

// precedence is how strongly the operators between two operands bind.
var precedence = map[string]int{"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4}

// binary reads operands, and operators between them that bind at least as strongly as least.
func (p *parser) binary(least int) (*node, error) {
	left, err := p.unary()
	for err == nil && p.tok.kind == tokenSymbol && precedence[p.tok.text] >= least {
		operator := p.tok
		if err = p.advance(); err != nil {
			break
		}
		var right *node
		if right, err = p.binary(precedence[operator.text] + 1); err != nil {
			break
		}
		n := &node{kind: compareNode, text: operator.text, start: left.start, end: right.end}
		switch operator.text {
		case "&&":
			n.kind = andNode
		case "||":
			n.kind = orNode
		}
		n.take(left)
		n.take(right)
		left, err = n, p.checkDepth(n)
	}
	return left, err
}

// take adds an operand. A chain of the same operator adds its own operands, so that it gets no deeper.
func (n *node) take(operand *node) {
	if n.kind != compareNode && n.kind == operand.kind {
		if n.args == nil {
			n.args = operand.args // no copy: a chain of thousands takes no longer than its length
		} else {
			n.args = append(n.args, operand.args...)
		}
		n.depth = max(n.depth, operand.depth)
		return
	}
	n.args, n.depth = append(n.args, operand), max(n.depth, operand.depth+1)
}

// deepen sets the depth of a node whose operands are known.
func (p *parser) deepen(n *node) error {
	for _, arg := range n.args {
		n.depth = max(n.depth, arg.depth)
	}
	n.depth++
	return p.checkDepth(n)
}

func (p *parser) checkDepth(n *node) error {
	if n.depth > MaxDepth {
		return newError(p.source, n.start, n.end, "split it, or compute it in a step", "the expression nests deeper than %d levels", MaxDepth)
	}
	return nil
}

// unary reads an operand, and what negates it.
func (p *parser) unary() (*node, error) {
	var starts []int
	for p.tok.is("!") {
		starts = append(starts, p.tok.start)
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	n, err := p.operand()
	for _, start := range slices.Backward(starts) {
		if err != nil {
			break
		}
		n = &node{kind: notNode, args: []*node{n}, start: start, end: n.end}
		err = p.deepen(n)
	}
	return n, err
}

// operand reads a literal, or what can be indexed and its indices.
func (p *parser) operand() (*node, error) {
	t := p.tok
	n := &node{kind: literalNode, start: t.start, end: t.end, depth: 1}
	switch {
	case t.kind == tokenNumber:
		n.value = value.OfFloat(t.number)
		return n, p.advance()
	case t.kind == tokenString:
		n.value = value.OfString(t.text)
		return n, p.advance()
	case t.is("("):
		return p.group()
	case t.kind != tokenName:
		return nil, p.unexpected()
	}
	if v, ok := keywords[t.text]; ok {
		n.value = v
		return n, p.advance()
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.is("(") {
		n.kind = callNode
		if err := p.call(n, t); err != nil {
			return nil, err
		}
		return p.indices(n, false)
	}
	n.kind, n.text = contextNode, strings.ToLower(t.text)
	const usual = 4 // names in a path: room for them at once
	p.uses = append(p.uses, Reference{Path: append(make([]string, 0, usual), n.text), places: append(make([]place, 0, usual), place{t.start, t.end, false})})
	return p.indices(n, true)
}

// group reads an expression in parentheses.
func (p *parser) group() (*node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.binary(1)
	if err == nil {
		err = p.expect(")")
	}
	if err != nil {
		return nil, err
	}
	return p.indices(n, false)
}

func (p *parser) expect(symbol string) error {
	if !p.tok.is(symbol) {
		if err := p.unexpected(); p.tok.kind != tokenEnd {
			return err
		}
		return newError(p.source, p.tok.start, p.tok.end, "", "the expression ends too early: its closing %s is missing", symbol)
	}
	return p.advance()
}

// call reads the arguments of a function; the current token is the parenthesis that opens them.
func (p *parser) call(n *node, called token) error {
	if err := p.advance(); err != nil {
		return err
	}
	for !p.tok.is(")") || len(n.args) > 0 {
		arg, err := p.binary(1)
		if err != nil {
			return err
		}
		n.args = append(n.args, arg)
		if !p.tok.is(",") {
			break
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
	n.end = p.tok.end
	if err := p.expect(")"); err != nil {
		return err
	}
	s, known := signatureOf(called.text)
	n.text = s.name
	if !known {
		return newError(p.source, called.start, called.end, unknown(called.text, "functions", functionNames), "unrecognized function %s", quote(called.text))
	}
	switch given := len(n.args); {
	case given < s.least:
		return newError(p.source, n.start, n.end, "", "too few parameters for %s: it takes %s, not %d", s.name, s.counts(), given)
	case given > s.most:
		return newError(p.source, n.start, n.end, "", "too many parameters for %s: it takes %s, not %d", s.name, s.counts(), given)
	case s.odd && given%2 == 0:
		return newError(p.source, n.start, n.end, "write case(condition, value, …, else)", "an even number of parameters for %s: it takes pairs of a condition and a value, and one for all else", s.name)
	}
	p.calls = append(p.calls, name{s.name, called.start, called.end})
	return p.deepen(n)
}

// indices reads .name, .*, [index] and [*]. follow says that they go on with the path of the last reference.
func (p *parser) indices(n *node, follow bool) (*node, error) {
	at := len(p.uses) - 1 // references in an index come after it
	for p.tok.is(".") || p.tok.is("[") {
		index := &node{kind: indexNode, start: n.start}
		property, start := p.tok.is("."), p.tok.start
		if err := p.advance(); err != nil {
			return nil, err
		}
		var key *node
		var err error
		switch {
		case p.tok.is("*"):
			index.end = p.tok.end
			err = p.advance()
		case property && p.tok.kind == tokenName:
			key = &node{kind: literalNode, value: value.OfString(p.tok.text), start: p.tok.start, end: p.tok.end, depth: 1}
			index.end = p.tok.end
			err = p.advance()
		case property:
			return nil, p.unexpected()
		default:
			key, err = p.binary(1)
		}
		if err == nil && !property {
			index.end = p.tok.end
			err = p.expect("]")
		}
		if err != nil {
			return nil, err
		}
		if follow = follow && key != nil && key.kind == literalNode && key.value.Kind() == value.String; follow {
			u := &p.uses[at]
			u.Path = append(u.Path, key.value.Str())
			u.places = append(u.places, place{start, index.end, true})
		}
		if index.args = []*node{n, key}; key == nil {
			index.args = index.args[:1]
		}
		if err := p.deepen(index); err != nil {
			return nil, err
		}
		n = index
	}
	return n, nil
}

// check reports the first name that is not available.
func (e *Expr) check(available *Available) error {
	contexts := AllContexts
	if available != nil {
		contexts = available.Contexts
	}
	var errs []*Error
	for _, u := range e.uses {
		if !slices.Contains(contexts, u.Path[0]) {
			written := e.source[u.places[0].start:u.places[0].end]
			errs = append(errs, newError(e.source, u.places[0].start, u.places[0].end, unknownContext(written, contexts), "unrecognized named-value %s", quote(written)))
		}
	}
	for _, c := range e.calls {
		if available == nil || slices.Contains(available.Functions, c.text) {
			continue
		}
		if s, _ := signatureOf(c.text); s.run {
			errs = append(errs, newError(e.source, c.start, c.end, "", "the function %s cannot be used here", s.name))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return slices.MinFunc(errs, func(a, b *Error) int { return a.Offset - b.Offset })
}

func unknownContext(written string, contexts []string) string {
	if _, ok := keywords[strings.ToLower(written)]; ok {
		return strings.ToLower(written) + " is written in lower case"
	}
	return unknown(written, "contexts", contexts)
}
