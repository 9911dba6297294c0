// Package rule is the expression language of GitLab's rules: what follows `if:` in `rules`, `workflow: rules` and
// `include: rules`, and in `only: variables` and `except: variables`.
//
//	$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH && $CI_COMMIT_MESSAGE !~ /skip tests/i
//
// An expression is parsed once and evaluated any number of times. Evaluation follows GitLab's, oddities included, because an
// expression that decides otherwise here than there is worse than none:
//
//   - && and || return one of their operands, and only null and false are false to them: an empty text counts as true. The
//     whole expression, and !, hold that an empty text, or one of spaces only, is false. So `$EMPTY || $SET` is false.
//   - A variable that is not set is null, which is not equal to "". Matched against a pattern it is the empty text.
//   - What is right of =~ is a pattern when its text looks like one, even when it comes from a variable or a string.
//     When it does not, or the pattern is not valid, GitLab looks for the left text inside the right one.
//   - ! binds closer than ==, so `!$A == "x"` compares the text of a truth value.
//   - A truth value and a text are equal when the text is the word true or false.
//
// Patterns are RE2: matching takes time linear in the text, and how much of it is bounded.
package rule

import (
	"slices"
	"strings"
	"sync"
)

// Limits on what is parsed and matched.
const (
	// MaxTokens is how many tokens an expression may have. GitLab's limit is 100, and it counts the end of the text as one.
	MaxTokens = 99
	// MaxLength is how long an expression may be, in bytes.
	MaxLength = 256 << 10
	// MaxPatternSize is how large a pattern may become when its repetitions are written out, in instructions.
	MaxPatternSize = 50_000
	// MaxMatchWork bounds the size of a pattern, in instructions, times the length of the text it is held against, in bytes.
	MaxMatchWork = 1 << 24
)

// Lookup returns the value of a variable, ok is false when it is not set. What `$[[ inputs.NAME ]]` stands for is looked up as
// "inputs.NAME", which no variable can be called.
type Lookup func(name string) (value string, ok bool)

// Expression is a parsed expression. It does not change, and is safe for concurrent use.
type Expression struct {
	source string
	root   *node
}

// Parse parses an expression. The error is an *Error.
func Parse(text string) (*Expression, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	root, err := parse(text, tokens)
	if err != nil {
		return nil, err
	}
	return &Expression{source: text, root: root}, nil
}

// Source returns the text that was parsed.
func (e *Expression) Source() string { return e.source }

// String returns the expression in its shortest spelling, which parses to the same expression.
func (e *Expression) String() string {
	var b strings.Builder
	e.root.write(&b)
	return b.String()
}

// Variables returns the names of the variables that the expression uses, sorted, without the inputs.
func (e *Expression) Variables() []string { return e.names(tokenVariable) }

// Inputs returns the names of the inputs that the expression uses, sorted.
func (e *Expression) Inputs() []string { return e.names(tokenInput) }

func (e *Expression) names(of kind) []string {
	var names []string
	e.root.walk(func(n *node) {
		if n.kind == of {
			names = append(names, n.text)
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// Result is what an expression evaluates to.
type Result struct {
	Value Value
	// True is the verdict: whether a rule with this expression applies.
	True bool
	// Notes say what is probably not meant, such as a text where a pattern is expected. They show no values.
	Notes []string
}

// Eval evaluates the expression. An error is an *Error: GitLab would fail as well, or a limit was met.
func (e *Expression) Eval(lookup Lookup) (Result, error) {
	s := state{source: e.source, lookup: lookup}
	v, err := s.eval(e.root)
	if err != nil {
		return Result{}, err
	}
	return Result{Value: v, True: v.present(), Notes: s.notes}, nil
}

// Cache parses every text once: the jobs of a large pipeline share a few expressions. The zero Cache is ready for use, and
// safe for concurrent use.
type Cache struct {
	mu     sync.Mutex
	parsed map[string]cached
}

type cached struct {
	expression *Expression
	err        error
}

// Parse is like the function Parse.
func (c *Cache) Parse(text string) (*Expression, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.parsed[text]; ok {
		return known.expression, known.err
	}
	e, err := Parse(text)
	if c.parsed == nil {
		c.parsed = map[string]cached{}
	}
	c.parsed[text] = cached{e, err}
	return e, err
}
