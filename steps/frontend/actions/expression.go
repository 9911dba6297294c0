package actions

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/diag"
)

// maxDepth is how deep parentheses and negations may nest.
const maxDepth = 50

// translation reads one expression of GitHub's and writes it in our language. Where the two mean different things, it calls a
// function of steps/toolkit/github; where it can do neither, it says so.
type translation struct {
	names  *names
	source string
	pos    int
	tok    token
	status bool // status functions mean something here
	depth  int
	wrong  *mistake // the first one; everything after it is not looked at
}

// token is a piece of an expression. The text of a string is what it stands for.
type token struct {
	kind       byte // 'n'ame, 's'tring, '0' for a number, 'o'perator, 0 for the end
	start, end int
	text       string
}

var (
	namePattern     = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*`)
	numberPattern   = regexp.MustCompile(`^-?(0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?)`)
	operatorPattern = regexp.MustCompile(`^(&&|\|\||==|!=|<=|>=|[<>!()\[\],.*])`)
)

func (t *translation) fail(start, end int, message, hint string) {
	if t.wrong == nil {
		t.wrong = mistakeAt(t.source, start, end, message, hint)
	}
	t.tok = token{start: len(t.source), end: len(t.source)}
	t.pos = len(t.source)
}

// next reads the next token into t.tok.
func (t *translation) next() {
	for t.pos < len(t.source) && strings.IndexByte(" \t\r\n", t.source[t.pos]) >= 0 {
		t.pos++
	}
	rest := t.source[t.pos:]
	if rest == "" || strings.HasPrefix(rest, closing) {
		t.tok = token{start: t.pos, end: t.pos}
		return
	}
	for kind, pattern := range map[byte]*regexp.Regexp{'n': namePattern, '0': numberPattern, 'o': operatorPattern} {
		if text := pattern.FindString(rest); text != "" {
			t.tok = token{kind, t.pos, t.pos + len(text), text}
			t.pos += len(text)
			return
		}
	}
	if rest[0] != '\'' {
		t.fail(t.pos, t.pos+1, "unexpected character in an expression", map[byte]string{
			'"': "strings stand in single quotes",
			'$': "write all of a condition without ${{ }}",
		}[rest[0]])
		return
	}
	var text strings.Builder
	for i := 1; i < len(rest); i++ {
		if rest[i] != '\'' {
			text.WriteByte(rest[i])
			continue
		}
		if i+1 < len(rest) && rest[i+1] == '\'' {
			text.WriteByte('\'')
			i++
			continue
		}
		t.tok = token{'s', t.pos, t.pos + i + 1, text.String()}
		t.pos += i + 1
		return
	}
	t.fail(t.pos, t.pos+1, "the string is not closed: its second ' is missing", "")
}

func (t *translation) is(operator string) bool { return t.tok.kind == 'o' && t.tok.text == operator }

// whole translates all of the expression; t.tok is then where it ends.
func (t *translation) whole() string {
	start := t.pos
	t.next()
	if t.tok.kind == 0 {
		t.fail(start, t.tok.end, "the expression is empty", "")
	}
	out := t.notNull(t.chain("||"))
	if t.tok.kind != 0 {
		t.fail(t.tok.start, t.tok.end, fmt.Sprintf("expected an operator or the end of the expression, found %q", t.tok.text), "")
	}
	return out
}

// chain translates operands between || and, below that, &&. They mean the same in both languages.
func (t *translation) chain(operator string) string {
	operand := t.equality
	if operator == "||" {
		operand = func() string { return t.chain("&&") }
	}
	out := operand()
	for t.is(operator) {
		t.next()
		out = "(" + t.notNull(out) + " " + operator + " " + t.notNull(operand()) + ")"
	}
	return out
}

func (t *translation) equality() string { return t.comparison(t.relation, "==", "!=") }

func (t *translation) relation() string { return t.comparison(t.unary, "<", "<=", ">", ">=") }

// comparison translates operators that GitHub converts their operands for, and to which upper and lower case are the same.
func (t *translation) comparison(operand func() string, operators ...string) string {
	out := operand()
	for {
		operator := ""
		for _, o := range operators {
			if t.is(o) {
				operator = o
			}
		}
		if operator == "" {
			return out
		}
		t.next()
		out = call("github_compare", quote(operator), out, operand())
	}
}

// notNull refuses null but as an operand of a comparison: GitHub's null is an empty text, ours is not.
func (t *translation) notNull(out string) string {
	if out == "null" {
		t.fail(t.tok.start, t.tok.end, "null can only be compared", "write '' for an empty text")
	}
	return out
}

func (t *translation) unary() string {
	t.depth++
	defer func() { t.depth-- }()
	if t.depth > maxDepth {
		t.fail(t.tok.start, t.tok.end, fmt.Sprintf("the expression is nested deeper than %d levels", maxDepth), "")
	}
	if t.is("!") {
		t.next()
		return "!" + t.notNull(t.unary())
	}
	tok := t.tok
	t.next()
	switch {
	case tok.kind == 's':
		return quote(tok.text)
	case tok.kind == '0':
		return t.number(tok)
	case tok.kind == 'n' && t.is("("):
		return t.call(tok)
	case tok.kind == 'n':
		switch tok.text {
		case "true", "false", "null":
			return tok.text
		}
		return t.reference(tok)
	case tok.kind == 'o' && tok.text == "(":
		out := t.chain("||")
		if !t.is(")") {
			t.fail(t.tok.start, t.tok.end, "expected )", "")
		}
		t.next()
		return out
	}
	t.fail(tok.start, tok.end, "expected a value", "")
	return ""
}

func (t *translation) number(tok token) string {
	if i, err := strconv.ParseInt(tok.text, 0, 64); err == nil && strings.ContainsAny(tok.text, "xo") {
		return strconv.FormatInt(i, 10)
	}
	f, err := strconv.ParseFloat(tok.text, 64)
	if err != nil {
		t.fail(tok.start, tok.end, "the number is too large", "")
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func (t *translation) call(name token) string {
	text := strings.ToLower(name.text)
	switch text {
	case "success", "failure", "always", "cancelled":
		if !t.status {
			t.fail(name.start, name.end, text+"() means something in `if` only", "")
		}
	default:
		t.fail(name.start, name.end, fmt.Sprintf("this version does not know the function %s()", name.text), "success(), failure(), always() and cancelled() are there; compute the rest in a step")
	}
	if t.next(); !t.is(")") {
		t.fail(t.tok.start, t.tok.end, text+"() takes no arguments", "")
	}
	t.next()
	return text + "()"
}

// reference translates a name and what follows it: a.b, a['b'].
func (t *translation) reference(root token) string {
	path := []token{root}
	for t.is(".") || t.is("[") {
		index := t.is("[")
		t.next()
		if t.tok.kind != 'n' && !index || t.tok.kind != 's' && index {
			t.fail(t.tok.start, t.tok.end, "this version reads only names after . and strings in [ ]", "")
			return ""
		}
		path = append(path, t.tok)
		if t.next(); index {
			if !t.is("]") {
				t.fail(t.tok.start, t.tok.end, "expected ]", "")
				return ""
			}
			t.next()
		}
	}
	last := path[len(path)-1]
	texts := make([]string, len(path))
	for i, part := range path {
		texts[i] = strings.ToLower(part.text)
	}
	switch {
	case texts[0] == "inputs" && len(path) == 2:
		return t.input(last)
	case texts[0] == "env" && len(path) == 2:
		return call("github_get", quote("env"), quote(last.text))
	case texts[0] == "steps" && len(path) > 2:
		return t.step(path)
	}
	if known, ok := map[string]string{
		"github.action_path": "func_dir", "github.workspace": "work_dir",
		"runner.os": call("github_runner", quote("os")), "runner.arch": call("github_runner", quote("arch")),
	}[strings.Join(texts, ".")]; ok {
		return known
	}
	t.fail(root.start, last.end, fmt.Sprintf("this version does not know %s", strings.Join(strings.Fields(t.source[root.start:last.end]), " ")),
		"inputs.NAME, steps.ID.outputs.NAME, steps.ID.outcome, steps.ID.conclusion, env.NAME, github.action_path, github.workspace, runner.os and runner.arch are there")
	return ""
}

func (t *translation) input(name token) string {
	declared, ok := t.names.inputs[strings.ToLower(name.text)]
	if !ok {
		var all []string
		for _, n := range t.names.inputs {
			all = append(all, n)
		}
		hint := "declare it in `inputs`"
		if like := diag.Suggest(name.text, all); like != "" {
			hint = fmt.Sprintf("did you mean %q?", like)
		}
		t.fail(name.start, name.end, fmt.Sprintf("the action does not declare the input %q", name.text), hint)
	}
	return member("inputs", declared)
}

func (t *translation) step(path []token) string {
	id, what := path[1], strings.ToLower(path[2].text)
	step, ok := t.names.steps[strings.ToLower(id.text)]
	if !ok || !step.reached {
		t.fail(id.start, id.end, fmt.Sprintf("no step before this one has the id %q", id.text), "")
		return ""
	}
	status := "steps." + step.name + ".status"
	switch {
	case what == "outputs" && len(path) == 4:
		return call("github_get", quote("steps"), quote(step.name), quote("outputs"), quote(path[3].text))
	case what == "outcome" && len(path) == 3, what == "conclusion" && len(path) == 3 && !step.forgiving:
		return status
	case what == "conclusion" && len(path) == 3:
		return "(" + status + " == 'failure' && 'success' || " + status + ")"
	}
	t.fail(path[2].start, path[len(path)-1].end, "a step has outputs.NAME, outcome and conclusion", "")
	return ""
}

// call writes a call in our language.
func call(name string, args ...string) string { return name + "(" + strings.Join(args, ", ") + ")" }

// quote writes a string in our language.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

var plainName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// member writes the access to a field in our language.
func member(of, name string) string {
	if plainName.MatchString(name) {
		return of + "." + name
	}
	return of + "[" + quote(name) + "]"
}
