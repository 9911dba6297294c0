package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// minMasked is how long a masked value must be for its appearances inside of other texts to be taken for it, in bytes.
const minMasked = 4

// isVariable reports whether a shell and the syntax of steps take a text as the name of a variable. It is asked for every variable
// of every job.
func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// scope is the variables of a job, expanded as the runner does it, and the way that texts with them get into a plan.
type scope struct {
	temp string
	all  []variable.Variable  // those that count, in order; values are expanded, those of files are their contents
	vars *variable.Collection // the same
	// hidden are the values that must not be in the plan, longest first, and tokens those of them that are no variables of the job.
	hidden []hidden
	tokens []variable.Variable
	// left are names that cannot be variables of a step.
	left []string
}

type hidden struct{ name, value string }

func newScope(j *Job) (*scope, error) {
	s := &scope{temp: j.Temp, vars: variable.New()}
	if j.Variables == nil {
		return s, nil
	}
	expanded, err := j.Variables.ExpandForJob(s.path)
	if err != nil {
		return nil, fmt.Errorf("expanding the variables: %w", err)
	}
	s.vars = expanded
	effective := expanded.Effective()
	s.all = make([]variable.Variable, 0, len(effective))
	for _, v := range effective {
		if !isVariable(v.Name) {
			s.left = append(s.left, v.Name)
			continue
		}
		if v.File && j.Temp == "" {
			return nil, fmt.Errorf("the variable %s is a file, and there is no folder for it", v.Name)
		}
		s.all = append(s.all, v)
		if v.Masked && !v.File {
			s.hide(v.Name, v.Value)
		}
	}
	return s, nil
}

// path returns where a file of the job is: beside the project's folder.
func (s *scope) path(name string) string {
	if strings.Contains(s.temp, `\`) && !strings.Contains(s.temp, "/") {
		return strings.TrimRight(s.temp, `\`) + `\` + name
	}
	return strings.TrimRight(s.temp, "/") + "/" + name
}

func (s *scope) hide(name, text string) {
	if text == "" {
		return
	}
	s.hidden = append(s.hidden, hidden{name, text})
	slices.SortStableFunc(s.hidden, func(a, b hidden) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.name, b.name))
	})
}

// expand replaces variables in a text as the runner does it.
func (s *scope) expand(text string) (string, error) { return s.vars.ExpandInJob(text, s.path) }

// secret returns the field of a token. One that is not the value of a masked variable becomes a variable of the run, under a name
// that is made of base.
func (s *scope) secret(base, token string) plan.Field {
	if token == "" || slices.ContainsFunc(s.hidden, func(h hidden) bool { return h.value == token }) {
		return s.data(token)
	}
	name := "RUNG_" + base
	for n := 2; slices.ContainsFunc(s.tokens, func(v variable.Variable) bool { return v.Name == name }); n++ {
		name = fmt.Sprintf("RUNG_%s_%d", base, n)
	}
	s.tokens = append(s.tokens, variable.Variable{Name: name, Value: token, Raw: true, Masked: true})
	s.hide(name, token)
	return s.data(token)
}

// data returns the field that yields a text.
func (s *scope) data(text string) plan.Field { return plan.Field{Value: s.text(text)} }

// text returns the value of a field that yields a text, in which nothing is evaluated but what stands for masked values.
func (s *scope) text(text string) value.Value { return value.OfString(s.template(text)) }

func (s *scope) texts(all []string) value.Value {
	items := make([]value.Value, len(all))
	for i, text := range all {
		items[i] = s.text(text)
	}
	return value.OfArray(items)
}

// template writes a text as a template: masked values as references to their variables, and all else so that it stays as it is.
func (s *scope) template(text string) string {
	var b strings.Builder
	for {
		at, found := s.find(text)
		if at < 0 {
			b.WriteString(expr.Escape(text))
			return b.String()
		}
		// A backslash before an expression would take its meaning away, and braces behind one would belong to it.
		before := strings.TrimRight(text[:at], `\`)
		slashes := text[len(before):at]
		text = text[at+len(found.value):]
		rest := strings.TrimLeft(text, "}")
		braces := text[:len(text)-len(rest)]
		if len(braces) < 2 {
			braces, rest = "", text
		}
		text = rest
		b.WriteString(expr.Escape(before) + "${{ ")
		if slashes != "" {
			b.WriteString(`"` + slashes + slashes + `" + `)
		}
		b.WriteString("vars." + found.name)
		if braces != "" {
			b.WriteString(` + "` + braces + `"`)
		}
		b.WriteString(" }}")
	}
}

// find returns the first masked value in a text; of several that begin at one place, the longest.
func (s *scope) find(text string) (at int, found hidden) {
	at = -1
	for _, h := range s.hidden {
		i := strings.Index(text, h.value)
		if len(h.value) < minMasked && text != h.value {
			i = -1
		}
		if i >= 0 && (at < 0 || i < at) {
			at, found = i, h
		}
	}
	return at, found
}

// redact takes masked values out of a message.
func (s *scope) redact(message string) string {
	for _, h := range s.hidden {
		message = strings.ReplaceAll(message, h.value, "[MASKED]")
	}
	return message
}

// env returns the environment of the steps that run the job's own commands.
func (s *scope) env(leave map[string]bool) map[string]plan.Field {
	env := make(map[string]plan.Field, len(s.all)+1)
	env["CI_JOB_STATUS"] = plan.Field{Value: value.OfString("running")}
	for _, v := range s.all {
		if leave[v.Name] {
			continue
		}
		env[v.Name] = s.field(v)
	}
	return env
}

func (s *scope) field(v variable.Variable) plan.Field {
	switch {
	case v.File:
		return s.data(s.path(v.Name))
	case v.Masked && v.Value != "":
		return plan.Field{Value: value.OfString("${{ vars." + v.Name + " }}")}
	}
	return s.data(v.Value)
}

// some returns the environment of those variables that a function wants; nil when it wants none.
func (s *scope) some(want func(name string) bool) map[string]plan.Field {
	var env map[string]plan.Field
	for _, v := range s.all {
		if !want(v.Name) {
			continue
		}
		if env == nil {
			env = map[string]plan.Field{}
		}
		env[v.Name] = s.field(v)
	}
	return env
}

// variables are those of the job: all of them, or those that the plan does not hold.
func (s *scope) variables(all bool) []variable.Variable {
	var out []variable.Variable
	for _, v := range s.all {
		if v.File {
			v.Value, v.Masked = s.path(v.Name), false
		}
		if v.File, v.Raw = false, true; all || v.Masked {
			out = append(out, v)
		}
	}
	return out
}

// files are the variables that are files, by their paths.
func (s *scope) files() map[string]variable.Variable {
	files := map[string]variable.Variable{}
	for _, v := range s.all {
		if v.File {
			files[s.path(v.Name)] = v
		}
	}
	return files
}
