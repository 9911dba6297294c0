// Package expr is the ${{ }} expression language: it parses expressions and templates and evaluates them to typed values.
//
// A template is text that may hold expressions. Parsing happens once, evaluation any number of times; what an evaluation
// yields is data and is never parsed again, so no value can turn into code. A result is sensitive when anything it was
// computed from is.
//
// The input may be hostile: the length and nesting of an expression and the size of the text it makes are bounded, and
// nothing recurses deeper than the nesting allows.
package expr

import (
	"slices"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// Limits on what is parsed and evaluated.
const (
	// MaxLength is how long one expression may be, in bytes. A template may be longer.
	MaxLength = 1 << 20
	// MaxDepth is how deep parentheses, literals, signs and templates in strings may nest in one expression.
	MaxDepth = 200
	// MaxText is how long a text that an expression or a template makes may be, in bytes.
	MaxText = 64 << 20
)

// Scope is what an expression can see.
type Scope interface {
	// Lookup returns the value of a top-level name, such as env or inputs.
	Lookup(name string) (value.Value, bool)
	// Names returns the top-level names, for error messages.
	Names() []string
	// Call calls a function other than str, num and bool; ok is false when there is no such function.
	Call(name string, args []value.Value) (v value.Value, ok bool, err error)
}

// LenientScope is a Scope that lets some of its names have fields which may be missing, and are null then: whether a variable
// is set at all can be asked only so.
type LenientScope interface {
	Scope
	// Lenient reports whether a missing field of the top-level name is null, and no error.
	Lenient(name string) bool
}

// Values is a Scope of fixed values, without functions.
type Values map[string]value.Value

// Lookup returns the value with the given name.
func (s Values) Lookup(name string) (value.Value, bool) {
	v, ok := s[name]
	return v, ok
}

// Names returns the names of all values, sorted.
func (s Values) Names() []string { return value.OfStruct(s).Keys() }

// Call finds no function.
func (s Values) Call(string, []value.Value) (value.Value, bool, error) {
	return value.Value{}, false, nil
}

// Expr is a parsed expression. It never changes, so several goroutines may evaluate it at once.
type Expr struct {
	source     string // the whole text that the expression is in, which offsets in errors count from
	start, end int    // where in source, in bytes, without ${{ and }}
	root       node
	calls      []string
	reads      [][2]string // a top-level name, and the attribute of it
}

// Parse reads a bare expression, without ${{ }} around it. Its errors are of type *Error.
func Parse(text string) (*Expr, error) {
	p := &parser{source: text, end: len(text), opened: -1}
	if len(text) > MaxLength {
		return nil, p.tooLong()
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	root, err := p.parseExpression()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokenEnd {
		return nil, p.unexpected("an operator or the end of the expression")
	}
	return &Expr{source: text, end: len(text), root: root, calls: p.calls, reads: p.reads}, nil
}

// ParseCondition reads the text of an `if:`: a bare expression, or exactly one with ${{ }} around it.
func ParseCondition(text string) (*Expr, error) {
	open := len(text) - len(strings.TrimLeft(text, whitespace))
	if !strings.HasPrefix(text[open:], opening) {
		return Parse(text)
	}
	e, after, err := parseEmbedded(text, open)
	if err != nil {
		return nil, err
	}
	if rest := strings.TrimSpace(text[after:]); rest != "" {
		start := after + strings.Index(text[after:], rest)
		return nil, newError(text, start, start+len(rest), "a condition is an expression already: write all of it without ${{ }}",
			"unexpected text after the condition's expression")
	}
	return e, nil
}

// String returns the expression as it was written, without ${{ }} and the space around it.
func (e *Expr) String() string { return strings.TrimSpace(e.source[e.start:e.end]) }

// Wrapped returns the text that an expression in another language has, where the whole expression is a call with that text: what frontends of
// such languages make of theirs.
func (e *Expr) Wrapped() (function, text string) {
	c, ok := e.root.(*call)
	if !ok || len(c.args) != 1 {
		return "", ""
	}
	l, ok := c.args[0].(*literal)
	if !ok || l.value.Kind() != value.String {
		return "", ""
	}
	return c.name, l.value.Str()
}

// Eval evaluates the expression. A nil scope has no names and no functions. Its errors are of type *Error.
func (e *Expr) Eval(s Scope) (value.Value, error) {
	if s == nil {
		s = Values(nil)
	}
	return e.root.eval(&evaluation{scope: s, source: e.source})
}

// Reads returns the attributes of a top-level name that the expression names anywhere, also in branches that an evaluation may not reach:
// "A" and "B" for env, of env.A ?? env["B"].
func (e *Expr) Reads(name string) []string {
	var found []string
	for _, read := range e.reads {
		if read[0] == name && !slices.Contains(found, read[1]) {
			found = append(found, read[1])
		}
	}
	return found
}

// Calls reports whether the expression calls one of the named functions anywhere, also in branches that an evaluation may
// not reach and in templates inside of strings.
func (e *Expr) Calls(names ...string) bool {
	return slices.ContainsFunc(e.calls, func(called string) bool { return slices.Contains(names, called) })
}
