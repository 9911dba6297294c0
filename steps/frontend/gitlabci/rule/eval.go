package rule

import (
	"strings"
	"unicode"
)

// Value is what a part of an expression evaluates to: null, a text, a truth value or a pattern. The zero Value is null.
type Value struct {
	kind kind // tokenEnd (null), tokenString, tokenTrue, tokenFalse or tokenPattern
	text string
	// pattern is set for patterns that are written as such.
	pattern *Pattern
}

// Text returns a Value of text.
func Text(text string) Value { return Value{kind: tokenString, text: text} }

// Truth returns a truth value.
func Truth(truth bool) Value {
	if truth {
		return Value{kind: tokenTrue, text: "true"}
	}
	return Value{kind: tokenFalse, text: "false"}
}

// IsNull reports whether the value is null: what a variable that is not set has.
func (v Value) IsNull() bool { return v.kind == tokenEnd }

// IsText reports whether the value is a text.
func (v Value) IsText() bool { return v.kind == tokenString }

// IsTruth reports whether the value is true or false.
func (v Value) IsTruth() bool { return v.kind == tokenTrue || v.kind == tokenFalse }

// String returns the value's text, "" for null.
func (v Value) String() string { return v.text }

// passes is the truth of && and ||: all but null and false is true.
func (v Value) passes() bool { return v.kind != tokenEnd && v.kind != tokenFalse }

// present is the truth of ! and of the whole expression: a text must hold something other than spaces as well.
func (v Value) present() bool {
	return v.passes() && (v.kind != tokenString || !isBlank(v.text))
}

func isBlank(text string) bool { return strings.TrimFunc(text, unicode.IsSpace) == "" }

// equals compares two values. A truth value and a text are equal when their texts are.
func (v Value) equals(w Value) bool {
	if v.kind == w.kind {
		return v.text == w.text
	}
	return v.text == w.text && (v.IsTruth() && w.IsText() || v.IsText() && w.IsTruth())
}

// state is one evaluation.
type state struct {
	source string
	lookup Lookup
	notes  []string
	// known are values that were computed before. It is nil where no part is asked for twice.
	known map[*node]Value
}

func (s *state) eval(n *node) (Value, *Error) {
	if v, ok := s.known[n]; ok {
		return v, nil
	}
	v, err := s.compute(n)
	if err == nil && s.known != nil {
		s.known[n] = v
	}
	return v, err
}

func (s *state) compute(n *node) (Value, *Error) {
	switch n.kind {
	case tokenNull:
		return Value{}, nil
	case tokenString:
		return Text(n.text), nil
	case tokenTrue, tokenFalse:
		return Truth(n.kind == tokenTrue), nil
	case tokenPattern:
		return Value{kind: tokenPattern, text: n.text, pattern: n.pattern}, nil
	case tokenVariable:
		return s.variable(n.text), nil
	case tokenInput:
		return s.input(n.text), nil
	case tokenNot:
		v, err := s.eval(n.left)
		return Truth(!v.present()), err
	}
	left, err := s.eval(n.left)
	if err != nil {
		return Value{}, err
	}
	if n.kind == tokenAnd && !left.passes() || n.kind == tokenOr && left.passes() {
		return left, nil
	}
	right, err := s.eval(n.right)
	if err != nil {
		return Value{}, err
	}
	switch n.kind {
	case tokenEqual, tokenNotEqual:
		if left.kind == tokenPattern && right.kind != tokenPattern {
			return Value{}, newError(s.source, n.start, n.end, "use =~ to match a string against a pattern, with the pattern on the right", "a pattern cannot be compared with %s", n.kind)
		}
		return Truth(left.equals(right) == (n.kind == tokenEqual)), nil
	case tokenMatch, tokenNotMatch:
		matches, err := s.match(n, left, right)
		return Truth(matches == (n.kind == tokenMatch)), err
	default:
		return right, nil
	}
}

func (s *state) variable(name string) Value {
	if s.lookup != nil {
		if text, ok := s.lookup(name); ok {
			return Text(text)
		}
	}
	return Value{}
}

// input returns the value of an input. Those of type boolean are truth values.
func (s *state) input(name string) Value {
	v := s.variable("inputs." + name)
	if v.text == "true" || v.text == "false" {
		return Truth(v.text == "true")
	}
	return v
}

// match reports whether the left text matches the right pattern.
func (s *state) match(n *node, left, right Value) (bool, *Error) {
	if !right.passes() {
		return false, nil // nothing matches null; GitLab's !~ is true then
	}
	if right.IsTruth() {
		return false, newError(s.source, n.right.start, n.right.end, "write a pattern, such as /^v[0-9]+$/", "expected a pattern after %s, found true", n.kind)
	}
	pattern := right.pattern
	if pattern == nil {
		var ok bool
		if pattern, ok = s.patternOf(n, right.text); !ok {
			return strings.Contains(right.text, left.text), nil
		}
	}
	matches, err := pattern.Match(left.text)
	if err != nil {
		return false, newError(s.source, n.start, n.end, "", "the match takes too long: %s", err)
	}
	return matches, nil
}

// patternOf returns the pattern that a text on the right of a match holds. When it holds none, GitLab looks for the left text
// inside of it, and a note says so.
func (s *state) patternOf(n *node, text string) (*Pattern, bool) {
	if recent := n.recent.Load(); recent != nil && recent.text == text {
		return recent, true
	}
	where := "what stands after " + n.kind.String()
	if n.right.kind == tokenVariable {
		where = "$" + n.right.text
	}
	pattern, ok, err := ParsePattern(text)
	switch {
	case text == "" && n.guarded: // the author knows that it can be empty
		return nil, false
	case err != nil || !ok:
		what := " is not of the form /pattern/"
		if ok {
			what = " is not a valid pattern"
		}
		s.notes = append(s.notes, where+what+": GitLab looks for the text on the left inside of it")
		return nil, false
	}
	n.recent.Store(pattern)
	return pattern, true
}
