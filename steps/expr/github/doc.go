// Package github is GitHub's dialect of expressions: the language inside ${{ }} in workflows and in the metadata of actions.
//
// It is a language of its own beside that of steps/expr, as the two differ in what nearly every operator means. Here texts are equal
// without regard to case, values of different kinds compare as numbers, what is not there is null, and && and || return an operand.
//
// Frontends parse and check expressions, and put them into plans as calls of functions in our language: [TemplateField], [ValueField]
// and [Condition.Field] write those. Whoever runs the plan evaluates them with [Parse] and [Expr.Eval].
//
// What an expression yields is sensitive when a text in it came from a sensitive value. Truth values are not: they say one bit, stand
// everywhere in a log, and GitHub does not mask them either.
//
// Two things differ from GitHub. The fields of an object have no order but that of their names, so .* and toJSON go by that. What
// fromJSON reads must be JSON, where GitHub's reader forgives single quotes, comments and text behind the value.
//
// Sources: GitHub's documentation of expressions, and the behaviour of actions/runner.
package github

import "github.com/rungci/rung/steps/value"

// Limits on what is parsed and evaluated. The first two are GitHub's.
const (
	// MaxLength is how long one expression may be, in characters.
	MaxLength = 21_000
	// MaxDepth is how deep operators and calls may nest. Parentheses do not count, nor does a chain of one && or ||.
	MaxDepth = 50
	// MaxText is how much text one evaluation may make, in bytes, all steps on the way counted.
	MaxText = 16 << 20
)

// Scope is what an expression can see.
type Scope interface {
	// Lookup returns the context with the given name, which is in lower case. One that is not there is null.
	Lookup(name string) (value.Value, bool)
	// Call calls a function that knows the run: success, failure, always, cancelled or hashFiles, spelled so. ok is false where there is none.
	Call(name string, args []value.Value) (v value.Value, ok bool, err error)
}

// Finder is a Scope that finds fields of some contexts by rules of its own.
type Finder interface {
	Scope
	// Find returns the field of a context, null if it has none. ok is false for a context that goes by the usual rules.
	Find(context, field string) (v value.Value, ok bool)
}

// Values is a Scope of fixed contexts, without functions.
type Values map[string]value.Value

// Lookup returns the context with the given name.
func (c Values) Lookup(name string) (value.Value, bool) {
	v, ok := c[name]
	return v, ok
}

// Call finds no function.
func (c Values) Call(string, []value.Value) (value.Value, bool, error) {
	return value.Value{}, false, nil
}

// Available says what expressions at some place may use. Functions that are the same everywhere need not be named.
type Available struct {
	Contexts  []string // in lower case
	Functions []string // of success, failure, always, cancelled and hashFiles
}

// AllContexts are the contexts that GitHub has anywhere.
var AllContexts = []string{"github", "env", "vars", "job", "jobs", "steps", "runner", "secrets", "strategy", "matrix", "needs", "inputs"}

// StatusFunctions are the functions that say how what came before went. A condition that calls one is not bound to success.
var StatusFunctions = []string{"success", "failure", "always", "cancelled"}
