package check

import (
	"path"
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
var elsewhere = lazyregexp.New(`(^|[\s;&|(])(\.|source|eval|set -a|getopts)\s`)

// environment finds the variables that the shell text of a component reads, and does not get: it does not request them, and its caller, if that
// is known, does not pass them. A text with a value to use instead (${NAME:-x}) is prepared for that.
func (s *scope) environment(spec *plan.Spec, def *plan.Definition, caller *plan.Step) {
	if def.Exec == nil || def.Exec.Toolkit != "" || def.InputPrefix != "" || caller != nil && (caller.InheritEnv || isOurs(caller.Ref)) {
		return
	}
	f, ok := shellText(def.Exec)
	if !ok || f.Value.Sensitive() {
		return
	}
	text := f.Value.Text()
	for _, name := range s.check.reads(text) {
		if gets(spec, def, caller, name) {
			continue
		}
		span := f.Span
		if at := strings.Index(text, name); at >= 0 {
			span = diag.Find(s.check.o.Line, f.Span, text, utf8.RuneCountInString(text[:at]), len(name))
		}
		s.report(rules.EnvNotRequested, span, "request it with `spec: {env: {"+name+": {}}}`, or pass it with `env` on the step", "the component reads %s, which its spec does not request", name)
	}
}

// reads are the variables that a shell text has to have from its environment, each once.
func (k *checker) reads(text string) []string {
	if names, known := k.uses[text]; known {
		return names
	}
	var names []string
	if plain, ok := expr.Literal(text); ok && !elsewhere.MatchString(plain) {
		for _, use := range shellscript.Uses(plain) {
			name := use.Name
			if !use.Default && !slices.Contains(names, name) && ofEnvironment.MatchString(name) && !plan.IsBaseVariable(name) && !plan.MatchesVariable(shellVariables, name) {
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

// gets reports whether a component has a variable.
func gets(spec *plan.Spec, def *plan.Definition, caller *plan.Step, name string) bool {
	if _, ok := def.Env[name]; ok {
		return true
	}
	if _, ok := spec.Secrets[name]; ok {
		return true
	}
	for request := range spec.Env {
		if plan.MatchesVariable([]string{request}, name) {
			return true
		}
	}
	if caller != nil {
		if _, ok := caller.Env[name]; ok {
			return true
		}
		for key := range caller.Env {
			if expr.Has(key) {
				return true
			}
		}
	}
	return mentions(def, "env."+name)
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

// exports finds variables that a process writes into its export file, and that its spec does not declare.
func (s *scope) exports(spec *plan.Spec, def *plan.Definition) {
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

// takeover finds what a component may export to take over later steps, and its caller does not allow.
func (s *scope) takeover(st *plan.Step, spec *plan.Spec) {
	if isOurs(st.Ref) {
		return
	}
	for _, name := range spec.Exports {
		if !plan.IsPattern(name) && plan.IsTakeoverVariable(name) && !slices.Contains(st.AllowExports, name) {
			s.report(rules.ExportNotAllowed, st.Span, "if that is wanted, allow it with `allow_exports: ["+name+"]`", "%s may export %s, which can take over later steps: it fails when it does", st.Ref.Text, name)
		}
	}
}
