package convert

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// language is what a condition is written in: that of rules of GitLab, or ours of steps. Both are written nearly the same.
type language struct {
	*scope
	rules bool
	// late says that the condition is asked after a failure too, when outputs of steps may not be there.
	late  bool
	place diag.Span
}

// holds writes whether an expression counts as true, or as false where negate is set. ok is false where there are no words for it.
func (l *language) holds(t ghexpr.Tree, negate bool) (text string, ok bool) {
	switch t.Kind {
	case ghexpr.And, ghexpr.Or:
		operator := " && "
		if (t.Kind == ghexpr.Or) != negate {
			operator = " || "
		}
		var parts []string
		for _, arg := range t.Args {
			part, ok := l.holds(arg, negate)
			if !ok {
				return "", false
			}
			if arg.Kind == ghexpr.And || arg.Kind == ghexpr.Or || strings.Contains(part, " || ") {
				part = "(" + part + ")"
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, operator), true
	case ghexpr.Not:
		return l.holds(t.Args[0], !negate)
	case ghexpr.Comparison:
		return l.compare(t, negate)
	case ghexpr.FunctionOf:
		return l.function(t, negate)
	case ghexpr.Literal:
		if l.rules || t.Value.Kind() != value.Boolean {
			return "", false
		}
		return map[bool]string{true: "true", false: "false"}[t.Value.Bool() != negate], true
	}
	name, v, ok := l.operand(t)
	if ok && v.boolean {
		return name + map[bool]string{false: ` == "true"`, true: ` != "true"`}[negate], true
	}
	return l.filled(name, negate), ok
}

// filled writes whether there is a value that is not empty.
func (l *language) filled(name string, negate bool) string {
	switch {
	case !negate:
		return name
	case !l.rules:
		return "!" + name
	case strings.HasPrefix(name, "$CI_"):
		return name + " == null"
	}
	return name + " == null || " + name + ` == ""`
}

// operand writes a value: a variable, or in steps also an output.
func (l *language) operand(t ghexpr.Tree) (string, variable, bool) {
	path, ok := t.Path()
	if !ok {
		return "", variable{}, false
	}
	if v, ok := l.variable(path, l.place); ok && (!l.rules || path[0] != "needs" && path[0] != "secrets") {
		return l.name("job", v.name), v, true
	}
	switch {
	case l.rules:
	case path[0] == "env" && len(path) == 2:
		return "env." + identifier(path[1]), variable{name: identifier(path[1])}, true
	case path[0] == "steps" && !l.late:
		text, ok := l.reference(path, l.place)
		return text, variable{}, ok
	}
	return "", variable{}, false
}

func (l *language) name(context, name string) string {
	if l.rules {
		return "$" + name
	}
	return context + "." + name
}

// sources are what GitLab calls events of GitHub's, in CI_PIPELINE_SOURCE.
var sources = map[string]string{"push": "push", "pull_request": "merge_request_event", "pull_request_target": "merge_request_event",
	"schedule": "schedule", "workflow_dispatch": "web", "repository_dispatch": "trigger"}

// compare writes == and !=.
func (l *language) compare(t ghexpr.Tree, negate bool) (string, bool) {
	if t.Text != "==" && t.Text != "!=" {
		return "", false
	}
	operator := map[bool]string{true: " == ", false: " != "}[(t.Text == "==") != negate]
	a, b := t.Args[0], t.Args[1]
	if a.Kind == ghexpr.Literal {
		a, b = b, a
	}
	path, _ := a.Path()
	if b.Kind != ghexpr.Literal {
		left, first, ok := l.operand(a)
		right, second, also := l.operand(b)
		return left + operator + right, ok && also && !first.boolean && !second.boolean
	}
	literal := b.Value.Str()
	key := strings.ToLower(strings.Join(path, "."))
	isText := b.Value.Kind() == value.String
	switch {
	case key == "github.ref" && isText:
		for prefix, name := range map[string]string{"refs/heads/": "CI_COMMIT_BRANCH", "refs/tags/": "CI_COMMIT_TAG"} {
			if rest, ok := strings.CutPrefix(literal, prefix); ok {
				return l.equal("job", name, operator, rest)
			}
		}
		return "", false
	case key == "github.ref_type" && (literal == "tag" || literal == "branch"):
		name := l.name("job", map[string]string{"tag": "CI_COMMIT_TAG", "branch": "CI_COMMIT_BRANCH"}[literal])
		return l.filled(name, operator == " != "), true
	case key == "github.event_name" && isText:
		source, ok := sources[literal]
		if !ok {
			return "", false
		}
		return l.equal("job", "CI_PIPELINE_SOURCE", operator, source)
	case !l.rules && len(path) == 3 && path[0] == "steps" && path[2] == "outcome" && isText:
		step := l.steps[strings.ToLower(path[1])]
		if step == nil {
			return "", false
		}
		return "steps." + step.name + ".status" + operator + quote(literal), true
	}
	name, v, ok := l.operand(a)
	switch {
	case !ok:
		return "", false
	case isText && literal == "": // which what is not there equals on GitHub
		return l.filled(name, operator == " == "), true
	case isText:
	case b.Value.Kind() == value.Boolean && v.boolean, b.Value.Kind() == value.Number && path[0] == "matrix":
		literal = ghexpr.Text(b.Value)
	default:
		return "", false
	}
	if key == "github.repository" || key == "github.repository_owner" || key == "github.actor" {
		l.note(l.place, "%s is compared with %q: write its name on GitLab", key, literal)
	}
	if l.rules {
		return l.equal("job", v.name, operator, literal)
	}
	return name + operator + quote(literal), true
}

func (l *language) equal(context, name, operator, literal string) (string, bool) {
	if l.rules && strings.ContainsAny(literal, "\"$\\\n") {
		return "", false
	}
	return l.name(context, name) + operator + quote(literal), true
}

// quote writes a string of ours, or of rules.
func quote(text string) string {
	if strings.ContainsAny(text, "\"\\\n") || strings.Contains(text, "${{") {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
	}
	return `"` + text + `"`
}

// function writes the functions that rules have an operator for, and of steps the status.
func (l *language) function(t ghexpr.Tree, negate bool) (string, bool) {
	if slices.Contains(ghexpr.StatusFunctions, t.Text) {
		return map[bool]string{true: "!", false: ""}[negate] + t.Text + "()", !l.rules && len(t.Args) == 0
	}
	if !slices.Contains([]string{"startsWith", "endsWith", "contains"}, t.Text) || t.Args[1].Kind != ghexpr.Literal || t.Args[1].Value.Kind() != value.String {
		return "", false
	}
	literal := t.Args[1].Value.Str()
	if path, _ := t.Args[0].Path(); t.Text == "startsWith" && strings.EqualFold(strings.Join(path, "."), "github.ref") {
		for prefix, name := range map[string]string{"refs/heads/": "CI_COMMIT_BRANCH", "refs/tags/": "CI_COMMIT_TAG"} {
			rest, ok := strings.CutPrefix(literal, prefix)
			switch {
			case !ok:
			case rest != "":
				return l.match(name, "^"+pattern(rest), negate)
			default:
				return l.filled(l.name("job", name), negate), true
			}
		}
		return "", false
	}
	_, v, ok := l.operand(t.Args[0])
	if !ok || v.name == "" {
		return "", false
	}
	text := pattern(literal)
	switch t.Text {
	case "startsWith":
		text = "^" + text
	case "endsWith":
		text += "$"
	}
	return l.match(v.name, text, negate)
}

func (l *language) match(name, pattern string, negate bool) (string, bool) {
	operator := map[bool]string{false: " =~ ", true: " !~ "}[negate]
	return "$" + name + operator + "/" + pattern + "/", l.rules
}

// pattern writes a text as a part of a regular expression of a rule.
func pattern(text string) string { return strings.ReplaceAll(regexp.QuoteMeta(text), "/", `\/`) }

// condition writes an `if` of a step: "" is none.
func (s *scope) condition(n *yamlsource.Node) string {
	c, err := ghexpr.ParseCondition(textOf(n), nil)
	if err != nil || c.Expr == nil {
		return ""
	}
	l := &language{scope: s, late: c.CallsStatus(), place: n.Span}
	t := c.Expr.Tree()
	if t.Kind == ghexpr.FunctionOf && t.Text == "success" {
		return ""
	}
	if text, ok := l.holds(t, false); ok {
		return text
	}
	text := ghexpr.Quoted(ghexpr.ConditionFunction, s.left(c.Expr, n.Span))
	if c.CallsStatus() { // which our language must see, to ask at all
		return "always() && " + text
	}
	return text
}

// jobCondition is the `if` of a job as a rule.
type jobCondition struct {
	text string // "" always holds
	when string // "", always or on_failure
	note string // what could not be said
}

// jobIf reads the `if` of a job.
func (s *scope) jobIf(n *yamlsource.Node) jobCondition {
	c, err := ghexpr.ParseCondition(textOf(n), nil)
	if err != nil || c.Expr == nil {
		return jobCondition{}
	}
	out := jobCondition{}
	args := []ghexpr.Tree{c.Expr.Tree()}
	if args[0].Kind == ghexpr.And {
		args = args[0].Args
	}
	var rest []ghexpr.Tree
	for _, t := range args {
		switch {
		case t.Kind == ghexpr.FunctionOf && len(t.Args) == 0 && t.Text == "success":
		case t.Kind == ghexpr.FunctionOf && len(t.Args) == 0 && t.Text == "failure":
			out.when = "on_failure"
		case t.Kind == ghexpr.FunctionOf && t.Text == "always", t.Kind == ghexpr.Not && t.Args[0].Kind == ghexpr.FunctionOf && t.Args[0].Text == "cancelled":
			out.when = "always"
		default:
			rest = append(rest, t)
		}
	}
	if len(rest) == 0 {
		return out
	}
	l := &language{scope: s, rules: true, place: n.Span}
	t := ghexpr.Tree{Kind: ghexpr.And, Args: rest}
	if len(rest) == 1 {
		t = rest[0]
	}
	text, ok := l.holds(t, false)
	if !ok {
		out.note = s.note(n.Span, "the condition of the job cannot be expressed in rules, so the job always runs: if: %s", shorten(c.Expr.String()))
	}
	out.text = text
	return out
}
