package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
)

// stepsOf writes the steps of a job, and collects what of them becomes keywords of the job.
type stepsOf struct {
	*scope
	job       *yamlsource.Node
	variables *mapping // that sources of the job ask for
	caches    list
	kept      upload // what the job's uploads keep together
	keeps     bool
	dotenv    string // the report with the outputs of the job
	names     map[*yamlsource.Node]string
	gone      map[*yamlsource.Node][]string // steps that became keywords, and what to say in their place
	keys      []string                      // of steps that only our runner takes
	place     diag.Span
}

// list writes a list of steps.
func (b *stepsOf) list(n *yamlsource.Node) list {
	b.claim(n)
	return b.items(n)
}

func (b *stepsOf) items(n *yamlsource.Node) list {
	var out list
	for _, item := range n.Items {
		if remarks, ok := b.gone[item]; ok {
			for _, text := range remarks {
				out = append(out, remark(text))
			}
			continue
		}
		out = append(out, b.step(item))
	}
	return out
}

// claim finds out which steps become keywords, and gives all others a name: the id, or what the step's name or action says.
func (b *stepsOf) claim(list *yamlsource.Node) {
	b.names, b.gone = map[*yamlsource.Node]string{}, map[*yamlsource.Node][]string{}
	taken := map[string]bool{}
	var all []*yamlsource.Node
	var walk func(n *yamlsource.Node)
	walk = func(n *yamlsource.Node) {
		for _, item := range n.Items {
			if n == list { // a group must not get empty
				if remarks, ok := b.keyword(item); ok {
					b.gone[item] = remarks
					continue
				}
			}
			all = append(all, item)
			if group := item.Get("parallel"); group != nil {
				walk(group)
			}
		}
	}
	walk(list)
	take := func(n *yamlsource.Node, base string) {
		name := base
		for i := 2; taken[strings.ToLower(name)]; i++ {
			name = base + "_" + strconv.Itoa(i)
		}
		taken[strings.ToLower(name)] = true
		b.names[n] = name
	}
	for _, n := range all {
		if id := n.Get("id"); id != nil {
			take(n, identifier(id.Text))
			b.steps[strings.ToLower(id.Text)] = &stepName{name: b.names[n], conditional: n.Get("if") != nil}
		}
	}
	for _, n := range all {
		if b.names[n] == "" {
			take(n, origin(n))
		}
	}
}

// maxName is how long a name that is made of a title may be.
const maxName = 40

// origin is what a step without an id is named after.
func origin(n *yamlsource.Node) string {
	text := ""
	switch {
	case n.Get("name") != nil && !ghexpr.Has(n.Get("name").Text):
		text = n.Get("name").Text
	case n.Get("uses") != nil:
		text, _, _ = strings.Cut(n.Get("uses").Text, "@")
		text = strings.TrimRight(text, "/")
		text = text[strings.LastIndexByte(text, '/')+1:]
	case n.Get("run") != nil:
		text = "script"
	default:
		text = n.Entries[0].Key.Text
	}
	name := strings.Trim(identifier(strings.ToLower(text)), "_")
	if len(name) > maxName {
		name = strings.Trim(name[:maxName], "_")
	}
	if name == "" {
		name = "step"
	}
	return identifier(name)
}

// only notes a key that GitLab does not take in a step.
func (b *stepsOf) only(key string, place diag.Span) {
	if len(b.keys) == 0 {
		b.place = place
	}
	if !slices.Contains(b.keys, key) {
		b.keys = append(b.keys, key)
	}
}

func (b *stepsOf) tellKeys() {
	if len(b.keys) > 0 {
		b.note(b.place, "Rung's runner takes %s in a step, and GitLab's own check of the file does not: run the job with step-runner local, or its steps with step-runner ci", strings.Join(b.keys, ", "))
	}
}

// step writes one step.
func (b *stepsOf) step(n *yamlsource.Node) mapping {
	s := &stepsOf{}
	*s = *b
	s.scope = b.with(n.Get("env"))
	var out mapping
	comments := []string(nil)
	if name := n.Get("name"); name != nil && !strings.EqualFold(name.Text, b.names[n]) {
		comments = append(comments, name.Text)
	}
	out.add("name", b.names[n], comments...)
	b.control(&out, n)
	if env := n.Get("env"); env != nil {
		var variables mapping
		for _, e := range env.Entries {
			b.setting(&variables, e.Key, b.template(e.Value))
		}
		out.add("env", variables)
	}
	switch {
	case n.Get("run") != nil:
		b.script(&out, s.scope, n)
	case n.Get("uses") != nil:
		reference := n.Get("uses").Text
		if rest, own := strings.CutPrefix(reference, "$/"); own {
			reference = "./" + rest
		}
		out.add("func", "action:"+reference)
		if with := n.Get("with"); with != nil {
			var inputs mapping
			for _, e := range with.Entries {
				if !inputName().MatchString(e.Key.Text) {
					inputs.remark(b.note(e.Key.Span, "the input %s is left out: actions cannot have an input of that name", shorten(e.Key.Text)))
					continue
				}
				inputs.add(e.Key.Text, s.template(e.Value))
			}
			out.add("inputs", inputs)
		}
	default:
		b.await(&out, n)
	}
	return out
}

// control writes when a step runs.
func (b *stepsOf) control(out *mapping, n *yamlsource.Node) {
	if c := n.Get("if"); c != nil {
		if text := b.condition(c); text != "" {
			out.add("if", text)
			b.only("if", c.Span)
		}
	}
	if t := n.Get("timeout-minutes"); t != nil {
		key, text := "timeout", t.Text+"m"
		if minutes, err := strconv.Atoi(t.Text); err == nil {
			text = strconv.Itoa(min(minutes, maxStepMinutes)) + "m"
		}
		if e, ok := whole(t); ok {
			key, text = "time_limit", "${{ "+ghexpr.Quoted(ghexpr.ValueFunction, b.left(e, t.Span))+" }}"
		}
		out.add(key, text)
		b.only(key, t.Span)
	}
	switch e := n.Get("continue-on-error"); {
	case e == nil || e.Text == "false":
	case e.Text == "true":
		out.add("allow_failure", raw("true"))
		b.only("allow_failure", e.Span)
	default:
		out.add("allow_failure", mapping{{nil, "if", b.condition(e)}})
		b.only("allow_failure", e.Span)
	}
	if g := n.Get("background"); g != nil && g.Text == "true" {
		out.add("background", raw("true"))
		b.only("background", g.Span)
	}
}

// whole is the expression of a text that is nothing else.
func whole(n *yamlsource.Node) (*ghexpr.Expr, bool) {
	t, err := ghexpr.ParseTemplate(textOf(n), nil)
	if err != nil {
		return nil, false
	}
	return t.Whole()
}

// await writes steps that group others, or wait for them.
func (b *stepsOf) await(out *mapping, n *yamlsource.Node) {
	for _, key := range []string{"parallel", "wait", "wait-all", "cancel"} {
		v := n.Get(key)
		if v == nil {
			continue
		}
		switch key {
		case "parallel":
			out.add("parallel", b.items(v))
		case "wait-all":
			key = "wait"
			out.add("wait", "all")
		default:
			var names list
			for _, id := range texts(v) {
				if step := b.steps[strings.ToLower(id)]; step != nil {
					names = append(names, step.name)
				}
			}
			out.add(key, names)
		}
		b.only(key, n.Span)
	}
}

// inputName is what our steps take as the name of an action's input.
var inputName = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_. -]*$`)

// speaks is a script that speaks with GitHub's runner, or reads its variables.
var speaks = lazyregexp.New(`GITHUB_[A-Z]|RUNNER_[A-Z]|::[a-z-]+(?: [a-zA-Z]+=[^:]*)?::`)

// literals are the texts of a template, without its expressions.
func literals(n *yamlsource.Node) string {
	t, err := ghexpr.ParseTemplate(n.Text, nil)
	if err != nil {
		return n.Text
	}
	var b strings.Builder
	for _, part := range t.Parts() {
		b.WriteString(part.Text)
	}
	return b.String()
}

// script writes a run. s sees the variables of the step itself.
func (b *stepsOf) script(out *mapping, s *scope, n *yamlsource.Node) {
	run := n.Get("run")
	text := s.template(run)
	if _, ok := whole(run); ok { // which is code
		text = `eval "` + strings.TrimRight(text, "\r\n") + `"`
	}
	shell, dir := b.runDefault(n, "shell"), b.runDefault(n, "working-directory")
	name := textOf(shell)
	switch name {
	case "", "bash", "sh":
		begin := "set -e\n"
		if name == "bash" {
			begin = "set -eo pipefail\n"
		}
		if dir != nil {
			begin += "cd " + word(s.template(dir)) + "\n"
		}
		text, name = begin+text, ""
		dir = nil
	case "pwsh", "powershell":
		text = "$ErrorActionPreference = 'stop'\n" + text
	case "python":
		name = "python {0}"
	case "cmd":
	default:
		name = s.template(shell)
	}
	at := out
	var exec mapping
	if dir != nil {
		at = &exec
	}
	at.add("script", strings.TrimRight(text, "\n")+"\n")
	if name != "" {
		at.add("shell", name)
		b.only("shell", shell.Span)
	}
	if dir != nil {
		at.add("work_dir", s.template(dir))
		b.only("exec", dir.Span)
	}
	if speaks().MatchString(literals(run)) {
		at.add("toolkit", "github")
		b.only("toolkit", run.Span)
	}
	if dir != nil {
		out.add("exec", exec)
	}
}

// word writes a template as one word of a shell.
func word(text string) string {
	switch {
	case strings.Contains(text, "${{"):
		return `"` + text + `"`
	case strings.ContainsAny(text, " \t'\"$`\\;&|<>()*?[]#~!{}"):
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// runDefault is what a step says of how it runs, or else defaults.run.
func (b *stepsOf) runDefault(n *yamlsource.Node, key string) *yamlsource.Node {
	if v := n.Get(key); v != nil {
		return v
	}
	for _, of := range []*yamlsource.Node{b.job, b.root} {
		if d := of.Get("defaults"); d != nil && d.Get("run") != nil && d.Get("run").Get(key) != nil {
			return d.Get("run").Get(key)
		}
	}
	return nil
}

// outputs writes the step that gives the outputs of the job to others, by a report.
func (b *stepsOf) outputs(n *yamlsource.Node) list {
	if len(n.Entries) == 0 {
		return nil
	}
	id := b.scope.job.ID
	b.dotenv = identifier(id) + ".env"
	text := "set -e\n: >" + b.dotenv + "\n"
	for _, e := range n.Entries {
		text += fmt.Sprintf("printf '%s=%%s\\n' \"%s\" >>%s\n", outputName(id, e.Key.Text), b.template(e.Value), b.dotenv)
	}
	b.note(n.Span, "outputs of the job %s become variables of jobs that need it, by a dotenv report: one line each, and none when the job fails", id)
	if strategy := b.job.Get("strategy"); strategy != nil {
		b.note(n.Span, "the job %s has a matrix: it is undefined which of its jobs provides the outputs", id)
	}
	name := "job_outputs"
	for slices.ContainsFunc(b.job.Get("steps").Items, func(item *yamlsource.Node) bool { return strings.EqualFold(b.names[item], name) }) {
		name = "_" + name
	}
	return list{mapping{{[]string{"Outputs of the job"}, "name", name}, {nil, "script", text}}}
}
