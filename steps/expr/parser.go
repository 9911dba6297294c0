package expr

import (
	"slices"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// The marks around an expression in a template.
const (
	opening = "${{"
	closing = "}}"
)

// parser is a recursive descent parser with operator precedence. It holds one token at a time; the template marks are found
// by the parser and not by the lexer, so "}}" in a string or at the end of two objects means what it should.
type parser struct {
	source string
	pos    int // behind the current token
	end    int // of what may be read: the end of the source, or MaxLength behind the start of the expression
	tok    token
	depth  int
	opened int // where the innermost ${{ stands, -1 for a bare expression
	calls  []string
	reads  [][2]string
}

// parseEmbedded reads the expression whose ${{ is at open, and its }}.
func parseEmbedded(source string, open int) (e *Expr, after int, err error) {
	p := &parser{source: source, end: min(len(source), open+MaxLength)}
	root, err := p.parseEmbedded(open)
	if err != nil {
		return nil, 0, err
	}
	return &Expr{source: source, start: open + len(opening), end: p.pos - len(closing), root: root, calls: p.calls, reads: p.reads}, p.pos, nil
}

// parseEmbedded leaves p.pos behind the closing mark; there is no current token then.
func (p *parser) parseEmbedded(open int) (node, error) {
	outer := p.opened
	p.opened, p.pos = open, open+len(opening)
	n, err := p.parseUntilClosing()
	p.opened = outer
	if err != nil && p.end == len(p.source) && !strings.Contains(p.source[open:], closing) {
		return nil, newError(p.source, open, open+len(opening), `write \${{ for a literal ${{`,
			"the expression is not closed: %q is missing after %s", closing, quote(excerpt(p.source[open:])))
	}
	return n, err
}

func (p *parser) parseUntilClosing() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.parseExpression()
	if err != nil {
		return nil, err
	}
	if !p.atClosing() {
		return nil, p.unexpected("an operator or " + quote(closing))
	}
	p.pos = p.tok.start + len(closing)
	return n, nil
}

func (p *parser) atClosing() bool {
	return p.opened >= 0 && p.tok.is("}") && strings.HasPrefix(p.source[p.tok.start:], closing)
}

func (p *parser) parseExpression() (node, error) {
	if p.tok.kind == tokenEnd || p.atClosing() {
		start := max(p.opened, 0)
		if before := strings.TrimSpace(p.source[start:p.tok.start]); before == "" || before == opening {
			return nil, newError(p.source, start, p.tok.end, "", "the expression is empty")
		}
	}
	return p.parseBinary(1)
}

// precedence of the binary operators; a higher one binds tighter.
var precedence = map[string]int{
	"||": 1,
	"&&": 2,
	"==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3,
	"+": 4, "-": 4,
	"*": 5, "/": 5, "%": 5,
}

func (p *parser) operator() int {
	if p.tok.kind != tokenSymbol {
		return 0
	}
	return precedence[p.tok.text]
}

// parseBinary reads operands joined by operators of at least the given precedence. All are left-associative; operators of
// one precedence in a row become one flat chain, so that a long sum does not make a deep tree.
func (p *parser) parseBinary(least int) (node, error) {
	left, err := p.parseUnary()
	if err != nil {
		return nil, err
	}
	for level := p.operator(); level >= least && level > 0; level = p.operator() {
		c := &chain{first: left}
		for p.operator() == level {
			operator := p.tok
			if err := p.advance(); err != nil {
				return nil, err
			}
			right, err := p.parseBinary(level + 1)
			if err != nil {
				return nil, err
			}
			c.rest = append(c.rest, term{operator.text, operator.start, right})
		}
		start, _ := left.span()
		_, end := c.rest[len(c.rest)-1].operand.span()
		c.at = at{start, end}
		left = c
	}
	return left, nil
}

// parseUnary reads an operand with its signs. Every nested construct passes through here, so here depth is bounded.
func (p *parser) parseUnary() (node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > MaxDepth {
		return nil, newError(p.source, p.tok.start, p.tok.end, "", "the expression is nested deeper than %d levels", MaxDepth)
	}
	if !p.tok.is("!") && !p.tok.is("-") && !p.tok.is("+") {
		return p.parsePostfix()
	}
	operator := p.tok
	if err := p.advance(); err != nil {
		return nil, err
	}
	operand, err := p.parseUnary()
	if err != nil {
		return nil, err
	}
	_, end := operand.span()
	return &unary{at{operator.start, end}, operator.text, operand}, nil
}

// parsePostfix reads an operand and the attributes and indexes behind it.
func (p *parser) parsePostfix() (node, error) {
	root, err := p.parsePrimary()
	if err != nil {
		return nil, err
	}
	var steps []access
	for {
		var step access
		switch {
		case p.tok.is("."):
			step, err = p.parseAttribute()
		case p.tok.is("["):
			step, err = p.parseIndex()
		case p.tok.is("("):
			return nil, newError(p.source, p.tok.start, p.tok.end, "", "only a function can be called; the functions are %s", functionList)
		default:
			if steps == nil {
				return root, nil
			}
			p.noteRead(root, steps[0])
			start, _ := root.span()
			return &path{at{start, steps[len(steps)-1].end}, root, steps}, nil
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
}

// noteRead takes note of an attribute of a top-level name.
func (p *parser) noteRead(root node, step access) {
	v, ok := root.(*variable)
	if !ok {
		return
	}
	name := step.name
	if l, ok := step.index.(*literal); ok && l.value.Kind() == value.String {
		name = l.value.Str()
	}
	if name != "" {
		p.reads = append(p.reads, [2]string{v.name, name})
	}
}

func (p *parser) parseAttribute() (access, error) {
	if err := p.advance(); err != nil {
		return access{}, err
	}
	if p.tok.kind != tokenName {
		err := p.unexpected(`a name after "."`)
		err.Hint = `write other keys in brackets: a["b-c"], a[0]`
		return access{}, err
	}
	step := access{name: p.tok.text, end: p.tok.end}
	return step, p.advance()
}

func (p *parser) parseIndex() (access, error) {
	if err := p.advance(); err != nil {
		return access{}, err
	}
	index, err := p.parseBinary(1)
	if err != nil {
		return access{}, err
	}
	step := access{index: index, end: p.tok.end}
	return step, p.expect("]")
}

func (p *parser) parsePrimary() (node, error) {
	tok := p.tok
	where := at{tok.start, tok.end}
	switch {
	case tok.kind == tokenNumber:
		v, err := value.ParseNumber(tok.text)
		if err != nil {
			return nil, newError(p.source, tok.start, tok.end, "", "%s", err.Error())
		}
		return &literal{where, v}, p.advance()
	case tok.kind == tokenRaw:
		return &literal{where, value.OfString(tok.text)}, p.advance()
	case tok.kind == tokenQuote:
		return p.parseQuoted()
	case tok.kind == tokenName:
		return p.parseName()
	case tok.is("("):
		return p.parseGroup()
	case tok.is("["):
		return p.parseArray()
	case tok.is("{"):
		return p.parseObject()
	default:
		return nil, p.unexpected("a value")
	}
}

func (p *parser) parseGroup() (node, error) {
	start := p.tok.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	inner, err := p.parseBinary(1)
	if err != nil {
		return nil, err
	}
	return &group{at{start, p.tok.end}, inner}, p.expect(")")
}

// expect skips the given symbol.
func (p *parser) expect(symbol string) error {
	if !p.tok.is(symbol) {
		return p.unexpected(quote(symbol))
	}
	return p.advance()
}

// unexpected returns an error about the current token, which should have been what is wanted.
func (p *parser) unexpected(wanted string) *Error {
	start, end := p.tok.start, p.tok.end
	found := quote(p.source[start:end])
	switch {
	case p.tok.kind == tokenEnd:
		found = "the end of the text"
	case p.atClosing():
		end = start + len(closing)
		found = "the end of the expression"
	}
	return newError(p.source, start, end, symbolHints[p.tok.text], "expected %s, found %s", wanted, found)
}

func (p *parser) tooLong() *Error {
	start := max(p.opened, 0)
	return newError(p.source, start, start+min(len(p.source)-start, len(opening)), "", "the expression is longer than %d bytes", MaxLength)
}

// reserved words cannot be variables or functions: the language may need them one day.
var reserved = []string{
	"array", "as", "break", "case", "const", "continue", "default", "else", "fallthrough", "float", "for", "func", "function",
	"goto", "if", "import", "in", "int", "let", "loop", "map", "namespace", "number", "object", "package", "range", "return",
	"string", "struct", "switch", "type", "var", "void", "while",
}

// reservedHints name the function that a reserved word is mistaken for.
var reservedHints = map[string]string{
	"string": "str(value) makes a string", "int": "num(text) makes a number", "float": "num(text) makes a number",
	"number": "num(text) makes a number",
}

// keyword returns the value that a word stands for, if it is one of null, true and false.
func keyword(word string) (value.Value, bool) {
	switch word {
	case "null":
		return value.Value{}, true
	case "true":
		return value.OfBool(true), true
	case "false":
		return value.OfBool(false), true
	}
	return value.Value{}, false
}

// parseName reads a keyword, a variable or a call.
func (p *parser) parseName() (node, error) {
	tok := p.tok
	if v, ok := keyword(tok.text); ok {
		return &literal{at{tok.start, tok.end}, v}, p.advance()
	}
	if slices.Contains(reserved, tok.text) {
		return nil, newError(p.source, tok.start, tok.end, reservedHints[tok.text], "%q is a reserved word and cannot be a name", tok.text)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.tok.is("(") {
		return &variable{at{tok.start, tok.end}, tok.text}, nil
	}
	if !slices.Contains(p.calls, tok.text) {
		p.calls = append(p.calls, tok.text)
	}
	return p.parseCall(tok)
}
