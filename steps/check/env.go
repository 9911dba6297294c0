package check

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// shellVariables are those that shells set themselves, by name and pattern.
var shellVariables = []string{
	"PWD", "OLDPWD", "IFS", "PPID", "UID", "EUID", "GROUPS", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "HOSTNAME", "SHLVL", "SHELLOPTS", "REPLY", "OPTARG", "OPTIND", "OPTERR",
	"FUNCNAME", "PIPESTATUS", "DIRSTACK", "BASH*", "HOSTTYPE", "MACHTYPE", "OSTYPE", "EPOCHSECONDS", "EPOCHREALTIME", "COPROC", "MAPFILE", "COMP_*", "PS1", "PS2", "PS3", "PS4", "COLUMNS", "LINES", "_",
}

// ofEnvironment are names that a script has from its environment, by custom.
var ofEnvironment = lazyregexp.New(`^[A-Z][A-Z0-9_]*$`)

// elsewhere finds what may set variables that the text does not show.
var elsewhere = lazyregexp.New(`(^|[\s;&|(])((\.|source|eval|set -a|set -o allexport|getopts)\s|(export|declare|readonly|typeset)\s+(-\w+\s+)*"?\$)`)

// surroundings are the variables that processes at one place of a component have, beside those that every process has: those of outer, those that
// the place sets, and in a list those that its steps export.
type surroundings struct {
	outer    *surroundings // nil at the border of the component
	vars     map[string]plan.Field
	names    []string
	patterns []string
	unknown  bool // there may be any
}

// requested are the variables that a component has: those that it requests, and those that its caller passes, if that is known.
func requested(c *plan.Component, caller *plan.Step) *surroundings {
	e := &surroundings{names: append(EnvReads(c), sorted(c.Spec.Secrets)...), patterns: sorted(c.Spec.Env)}
	if caller != nil {
		e = e.within(caller.Env)
	}
	return e
}

// within are those of a step, or of a definition, that sets variables.
func (e *surroundings) within(vars map[string]plan.Field) *surroundings {
	return &surroundings{outer: e, vars: vars, unknown: e.unknown || slices.ContainsFunc(sorted(vars), expr.Has)}
}

func (e *surroundings) has(name string) bool {
	if e == nil {
		return false
	}
	_, own := e.vars[name]
	return own || slices.Contains(e.names, name) || plan.MatchesVariable(e.patterns, name) || e.outer.has(name)
}

// reader reads the shell text of a component, in the scope of the step that calls it.
type reader struct {
	*scope
	dir string // of the component
}

// environment finds the variables that shell text of a component reads, and does not get: it does not request them, its caller, if that is
// known, does not pass them, and nothing in it sets them. A text with a value to use instead (${NAME:-x}) is prepared for that.
func (s *scope) environment(c *plan.Component, dir string, caller *plan.Step) {
	if caller != nil && (caller.InheritEnv || isOurs(caller.Ref)) {
		return
	}
	key := reading{component: c}
	if caller != nil {
		key.passed = strings.Join(sorted(caller.Env), " ")
	}
	if !s.check.read[key] {
		s.check.read[key] = true
		reader{s, dir}.definition(&c.Definition, requested(c, caller))
	}
}

// reading is a component with the names of what its caller passes: the same for all who pass the same.
type reading struct {
	component *plan.Component
	passed    string
}

func (r reader) definition(def *plan.Definition, around *surroundings) {
	e := around.within(def.Env)
	e.unknown = e.unknown || def.InputPrefix != ""
	if def.Exec != nil {
		r.exec(def.Exec, e)
	}
	for i := range def.Steps {
		r.step(&def.Steps[i], e)
		r.export(&def.Steps[i], e)
	}
}

// step reads the shell text in a step. A component that it calls is read for itself.
func (r reader) step(st *plan.Step, around *surroundings) {
	e := around.within(st.Env)
	for i := range st.Parallel {
		r.step(&st.Parallel[i], e)
	}
	if st.Inline != nil {
		e.names = append(sorted(st.Inline.Spec.Env), sorted(st.Secrets)...)
		r.definition(&st.Inline.Definition, e)
	}
}

// export adds what a step may export to what those after it have.
func (r reader) export(st *plan.Step, e *surroundings) {
	for i := range st.Parallel {
		r.export(&st.Parallel[i], e)
	}
	switch {
	case st.Ref != nil:
		if spec := r.specOf(st.Ref); spec != nil {
			e.patterns = append(e.patterns, spec.Exports...)
		} else {
			e.unknown = true
		}
	case st.Inline != nil:
		def := &st.Inline.Definition
		for i := range def.Steps {
			r.export(&def.Steps[i], e)
		}
		if def.Exec != nil {
			e.unknown = e.unknown || def.Exec.Toolkit != "" || mentions(def, "export_file")
		}
	}
}

// specOf is the spec of a component; nil where it is unknown what the component exports.
func (r reader) specOf(ref *plan.Reference) *plan.Spec {
	if r.check.o.Load == nil || ref.Kind == plan.RefAction {
		return nil
	}
	at := *r.scope
	at.dir, at.maybe = r.dir, true
	if found, err := at.loaded(ref); err == nil && found != nil {
		return &found.Plan.Spec
	}
	return nil
}

// exec reads the shell text of a process.
func (r reader) exec(x *plan.Exec, e *surroundings) {
	f, ok := shellText(x)
	if !ok || e.unknown || x.Toolkit != "" || f.Value.Sensitive() {
		return
	}
	text := f.Value.Text()
	for _, name := range r.check.reads(text) {
		if e.has(name) {
			continue
		}
		span := f.Span
		if m := regexp.MustCompile(`\$\{?[#!]?` + name).FindStringIndex(text); m != nil {
			span = diag.Find(r.check.o.Line, f.Span, text, utf8.RuneCountInString(text[:m[1]-len(name)]), len(name))
		}
		r.report(rules.EnvNotRequested, span, "request it with `spec: {env: {"+name+": {}}}`, or pass it with `env` on the step", "the component reads %s, which its spec does not request", name)
	}
}

// reads are the variables that a shell text has to have from its environment, each once.
func (k *checker) reads(text string) []string {
	if names, known := k.uses[text]; known {
		return names
	}
	var names []string
	if plain, ok := expr.Literal(text); ok && !elsewhere.MatchString(plain) {
		uses := shellscript.Uses(plain)
		prepared := map[string]bool{}
		for _, use := range uses {
			prepared[use.Name] = prepared[use.Name] || use.Default
		}
		for _, use := range uses {
			name := use.Name
			if !prepared[name] && !slices.Contains(names, name) && ofEnvironment.MatchString(name) && !plan.IsBaseVariable(name) && !plan.MatchesVariable(shellVariables, name) {
				names = append(names, name)
			}
		}
	}
	k.uses[text] = names
	return names
}

// isOurs reports whether what a reference leads to is no shell text of somebody's: a part of this program, or an action.
func isOurs(ref *plan.Reference) bool {
	return ref.Kind == plan.RefBuiltin || ref.Kind == plan.RefAction
}

// mentions reports whether an expression of a process or its environment names something: what expressions name counts as requested.
func mentions(def *plan.Definition, name string) bool {
	text := func(f plan.Field) bool { return strings.Contains(f.Value.Text(), name) }
	if def.Exec.Script != nil && text(def.Exec.Script.Text) || slices.ContainsFunc(def.Exec.Command, text) {
		return true
	}
	for _, f := range def.Env {
		if text(f) {
			return true
		}
	}
	return false
}

// shellText is the text that a POSIX shell runs in a process: a script, or the text of `sh -c`.
func shellText(x *plan.Exec) (plan.Field, bool) {
	posix := []string{plan.ShellBash, plan.ShellSh}
	if x.Script != nil {
		return x.Script.Text, x.Script.Shell == "" || slices.Contains(posix, x.Script.Shell)
	}
	if len(x.Command) < 3 || !slices.Contains(posix, path.Base(x.Command[0].Value.Text())) {
		return plan.Field{}, false
	}
	option := x.Command[1].Value.Text()
	return x.Command[2], strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.HasSuffix(option, "c")
}

// exported finds the name of a variable in a line that writes it into the export file.
var exported = lazyregexp.New(`"name"\s*:\s*\\?"([A-Za-z_][A-Za-z0-9_]*)\\?".*>\s*"?\$\{\{\s*export_file\s*\}\}`)

// exported finds variables that processes of a component write into their export file, and that its spec does not declare.
func (s *scope) exported(spec *plan.Spec, def *plan.Definition) {
	for i := range def.Steps {
		for _, st := range append([]plan.Step{def.Steps[i]}, def.Steps[i].Parallel...) {
			if st.Inline != nil {
				s.exported(spec, &st.Inline.Definition)
			}
		}
	}
	if def.Exec == nil || def.Exec.Toolkit != "" {
		return
	}
	f, ok := shellText(def.Exec)
	if !ok || f.Value.Sensitive() {
		return
	}
	text, at := f.Value.Text(), 0
	for line := range strings.Lines(text) {
		m := exported().FindStringSubmatch(line)
		if comment := strings.HasPrefix(strings.TrimSpace(line), "#"); m != nil && !comment && !plan.MatchesVariable(spec.Exports, m[1]) {
			name := m[1]
			span := diag.Find(s.check.o.Line, f.Span, text, utf8.RuneCountInString(text[:at+strings.Index(line, name)]), len(name))
			s.report(rules.ExportNotDeclared, span, "declare it with `spec: {exports: ["+name+"]}`", "the component exports %s, which its spec does not declare", name)
		}
		at += len(line)
	}
}
