package rule

import "strings"

// Explain says why the expression is true or false, for people: one line, without a full stop.
//
//	$CI_COMMIT_BRANCH is "feature", not "main"
//
// The values of variables for which secret returns true are not shown; secret may be nil.
func (e *Expression) Explain(lookup Lookup, secret func(name string) bool) string {
	x := explainer{state: state{source: e.source, lookup: lookup, known: map[*node]Value{}}, secret: secret}
	if _, err := x.eval(e.root); err != nil {
		return err.Message
	}
	return x.why(e.root)
}

type explainer struct {
	state
	secret func(name string) bool
}

// value evaluates a node of an expression that is known to evaluate without an error.
func (x *explainer) value(n *node) Value {
	v, err := x.eval(n)
	if err != nil {
		return Value{} // not reached by way of an operator that was skipped
	}
	return v
}

// why says why the node is what it is.
func (x *explainer) why(n *node) string {
	switch n.kind {
	case tokenAnd:
		return x.whyAnd(n)
	case tokenOr:
		return x.whyOr(n)
	case tokenNot:
		return x.why(n.left)
	case tokenEqual, tokenNotEqual:
		return x.whyEqual(n)
	case tokenMatch, tokenNotMatch:
		return x.whyMatch(n)
	case tokenVariable, tokenInput:
		return x.is(n)
	default:
		if x.value(n).present() {
			return x.name(n) + " is always true"
		}
		return x.name(n) + " is always false"
	}
}

func (x *explainer) whyAnd(n *node) string {
	left := x.value(n.left)
	switch {
	case !left.passes():
		return x.why(n.left)
	case !left.present():
		return x.why(n.left) + " (which && takes for true), and " + x.why(n.right)
	case !x.value(n.right).present():
		return x.why(n.right)
	default:
		return x.why(n.left) + ", and " + x.why(n.right)
	}
}

func (x *explainer) whyOr(n *node) string {
	left := x.value(n.left)
	switch {
	case left.passes() && !left.present():
		return x.why(n.left) + " (which || takes for true, and does not look further)"
	case left.passes():
		return x.why(n.left)
	case x.value(n.right).present():
		return x.why(n.right)
	default:
		return x.why(n.left) + ", and " + x.why(n.right)
	}
}

func (x *explainer) whyEqual(n *node) string {
	a, b := n.left, n.right
	if a.isLiteral() && !b.isLiteral() {
		a, b = b, a
	}
	left, right := x.value(a), x.value(b)
	equal := left.equals(right)
	switch {
	case b.isLiteral() && (equal || right.IsNull()):
		return x.is(a)
	case b.isLiteral() && x.hides(a):
		return x.name(a) + " is not " + x.name(b)
	case b.isLiteral():
		return x.is(a) + ", not " + x.name(b)
	case equal && (x.hides(a) || x.hides(b)):
		return x.name(a) + " and " + x.name(b) + " are equal"
	case equal && left.IsNull():
		return x.name(a) + " and " + x.name(b) + " are both not set"
	case equal:
		return x.name(a) + " and " + x.name(b) + " are both " + quote(left.text)
	default:
		return x.is(a) + ", and " + x.is(b)
	}
}

func (x *explainer) whyMatch(n *node) string {
	right := x.value(n.right)
	pattern := x.name(n.right)
	if n.right.kind != tokenPattern {
		if right.IsNull() {
			return x.is(n.right) + ", which matches nothing"
		}
		if !x.hides(n.right) {
			pattern += " (" + excerpt(right.text) + ")"
		}
	}
	verb := " does not match "
	if x.value(n).passes() == (n.kind == tokenMatch) {
		verb = " matches "
	}
	why := x.name(n.left) + verb + pattern
	if !n.left.isLiteral() {
		why = x.is(n.left) + ", which" + verb + pattern
	}
	if n.right.kind == tokenPattern {
		return why
	}
	probe := state{}
	if _, ok := probe.patternOf(n, right.text); !ok {
		why += " (as a string: it is not a pattern)"
	}
	return why
}

// is says what a value is.
func (x *explainer) is(n *node) string {
	v := x.value(n)
	switch {
	case v.IsNull():
		return x.name(n) + " is not set"
	case v.IsText() && v.text == "":
		return x.name(n) + " is empty"
	case x.hides(n):
		return x.name(n) + " is set"
	case v.IsTruth():
		return x.name(n) + " is " + v.text
	case v.IsText() && isBlank(v.text):
		return x.name(n) + " holds only spaces"
	default:
		return x.name(n) + " is " + quote(v.text)
	}
}

// name returns how the node is written, in parentheses when it is more than a value.
func (x *explainer) name(n *node) string {
	var b strings.Builder
	n.writeWithin(&b, bindNot)
	return excerpt(b.String())
}

// hides reports whether the node's value must not be shown, because a secret is part of it.
func (x *explainer) hides(n *node) bool {
	hidden := false
	n.walk(func(n *node) {
		hidden = hidden || n.kind == tokenVariable && x.secret != nil && x.secret(n.text)
	})
	return hidden
}

func (n *node) isLiteral() bool {
	return n.kind != tokenVariable && n.kind != tokenInput && n.kind.binding() == bindValue
}
