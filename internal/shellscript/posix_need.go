package shellscript

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rungci/rung/internal/lazyregexp"
)

// integerVariables are those of bash that evaluate what is assigned to them.
var integerVariables = []string{
	"RANDOM", "SRANDOM", "OPTIND", "HISTCMD", "SECONDS", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME", "BASHPID", "UID", "EUID", "PPID",
}

// arrayVariables are those of bash that are arrays.
var arrayVariables = []string{
	"BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_CMDS", "BASH_LINENO", "BASH_REMATCH", "BASH_SOURCE", "BASH_VERSINFO", "COMPREPLY", "COMP_WORDS",
	"COPROC", "DIRSTACK", "FUNCNAME", "GROUPS", "MAPFILE", "PIPESTATUS",
}

// codeVariables are those whose text a shell expands or runs later.
var codeVariables = []string{"PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "ENV", "BASH_ENV"}

// shells are the programs that take code after -c, or from their input.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "su"}

// facts are what a script says about its variables, anywhere.
type facts struct {
	integers map[string]bool // declared with -i
	arrays   map[string]bool // used as an array
}

func gather(file *syntax.File) facts {
	f := facts{integers: map[string]bool{}, arrays: map[string]bool{}}
	for _, name := range integerVariables {
		f.integers[name] = true
	}
	for _, name := range arrayVariables {
		f.arrays[name] = true
	}
	for node := range syntax.Preorder(file) {
		switch n := node.(type) {
		case *syntax.DeclClause:
			f.gatherDeclared(n)
		case *syntax.Assign:
			if n.Name != nil && (n.Index != nil || n.Array != nil) {
				f.arrays[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			f.gatherRead(n)
		case *syntax.CoprocClause:
			if n.Name != nil {
				f.arrays[static(n.Name)] = true
			}
		}
	}
	return f
}

func (f facts) gatherDeclared(decl *syntax.DeclClause) {
	letters := flags(decl)
	for _, arg := range decl.Args {
		name := ""
		if arg.Name != nil {
			name = arg.Name.Value
		} else if arg.Value != nil {
			name, _, _ = strings.Cut(static(arg.Value), "=")
		}
		f.integers[name] = f.integers[name] || strings.Contains(letters, "i")
		f.arrays[name] = f.arrays[name] || strings.ContainsAny(letters, "aA")
	}
}

// gatherRead takes every word after read and its like for the name of an array: too many names do no harm.
func (f facts) gatherRead(call *syntax.CallExpr) {
	for i, arg := range call.Args {
		if name := static(arg); name == "read" || name == "mapfile" || name == "readarray" {
			for _, later := range call.Args[i+1:] {
				f.arrays[static(later)] = true
			}
		}
	}
}

// flags returns the letters of a declaration's options.
func flags(decl *syntax.DeclClause) string {
	var b strings.Builder
	for _, arg := range decl.Args {
		if arg.Naked && arg.Name == nil && arg.Value != nil {
			if text := static(arg.Value); strings.HasPrefix(text, "-") {
				b.WriteString(text[1:])
			}
		}
	}
	return b.String()
}

// static returns the text of a word that is the same in every run, and "" for all others.
func static(w *syntax.Word) string {
	dynamic := false
	for node := range syntax.Preorder(w) {
		switch node.(type) {
		case *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			dynamic = true
		}
	}
	if dynamic {
		return ""
	}
	text, _ := unquote(w)
	return text
}

// need climbs from the top of the stack, a slot, to the command it is in and returns what the slot needs. The text is
// an error when no value can be there.
func (p *posix) need() (need, string) {
	quoted := false
	for i := len(p.stack) - 2; i >= 0; i-- {
		child := p.stack[i+1]
		switch parent := p.stack[i].(type) {
		case *syntax.DblQuoted:
			quoted = true
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			return number, ""
		case *syntax.ParamExp:
			if child == parent.Index || parent.Slice != nil && (child == parent.Slice.Offset || child == parent.Slice.Length) {
				return number, ""
			}
		case *syntax.ArrayElem:
			if child == parent.Index {
				return number, ""
			}
		case *syntax.BinaryTest:
			if parent.Op >= syntax.TsEql && parent.Op <= syntax.TsGtr {
				return number, ""
			}
		case *syntax.UnaryTest:
			if parent.Op == syntax.TsVarSet || parent.Op == syntax.TsRefVar {
				return noSubscript, ""
			}
		case *syntax.Assign:
			return p.assignNeed(parent, child, p.stack[i-1])
		case *syntax.Redirect:
			return redirectNeed(parent, child, p.stack[i-1])
		case *syntax.CallExpr:
			quoted = quoted || isQuoted(p.stack[len(p.stack)-1])
			return p.callNeed(parent, child, quoted), ""
		case *syntax.Stmt:
			return anything, ""
		}
	}
	return anything, ""
}

func isQuoted(n syntax.Node) bool {
	_, ok := n.(*syntax.SglQuoted)
	return ok
}

// assignNeed is for a slot in an assignment or an argument of a declaration.
func (p *posix) assignNeed(a *syntax.Assign, child, parent syntax.Node) (need, string) {
	if child == a.Index {
		return number, ""
	}
	decl, declared := parent.(*syntax.DeclClause)
	letters := ""
	if declared {
		letters = flags(decl)
	}
	name, prefix := "", ""
	if a.Name != nil {
		name = a.Name.Value
	}
	if a.Value != nil {
		prefix = p.staticPrefix(a.Value)
	}
	if a.Name == nil && declared {
		var assigned bool
		if name, prefix, assigned = strings.Cut(prefix, "="); !assigned {
			return noSubscript, "" // the name itself, or an option, comes from the value
		}
	}
	switch {
	case strings.Contains(letters, "i") || p.facts.integers[strings.TrimSuffix(name, "+")]:
		return number, ""
	case slices.Contains(codeVariables, name):
		return inert, ""
	case strings.Contains(letters, "n"):
		return noSubscript, ""
	case !declared || child == a.Array:
		return anything, ""
	case !strings.ContainsAny(letters, "aA") && !p.facts.arrays[name]:
		return anything, ""
	case strings.HasPrefix(prefix, "("):
		return inert, ""
	case strings.TrimSpace(prefix) == "":
		return noCompound, ""
	}
	return anything, ""
}

// staticPrefix returns the text of a word up to its first slot, without quotes.
func (p *posix) staticPrefix(w *syntax.Word) string {
	start, end := offsets(w)
	if slots := p.within(start, end); len(slots) > 0 {
		end, _ = p.span(slots[0])
	}
	return strings.NewReplacer(`'`, "", `"`, "", `\`, "", "$'", "").Replace(p.text[start:end])
}

// redirectNeed is for a slot in a file name, a here-document or a here-string.
func redirectNeed(r *syntax.Redirect, child, parent syntax.Node) (need, string) {
	if r.Hdoc != nil && child == r.Word {
		return anything, "the delimiter of a here-document cannot come from an expression"
	}
	stmt, ok := parent.(*syntax.Stmt)
	if !ok || r.Hdoc == nil && r.Op != syntax.WordHdoc {
		return anything, ""
	}
	if call, ok := stmt.Cmd.(*syntax.CallExpr); ok && readsCode(call) {
		return inert, ""
	}
	return anything, ""
}

// readsCode reports whether a command is a shell that has no script but its input.
func readsCode(call *syntax.CallExpr) bool {
	for i, arg := range call.Args {
		if !slices.Contains(shells, path.Base(static(arg))) {
			continue
		}
		for _, later := range call.Args[i+1:] {
			if text := static(later); text == "-s" || text == "-" {
				return true
			} else if !strings.HasPrefix(text, "-") || codeOption.MatchString(text) {
				return false
			}
		}
		return true
	}
	return false
}

var (
	codeOption      = lazyregexp.New(`^-[A-Za-z]*c$`)
	readTextOption  = lazyregexp.New(`^-[A-Za-z]*[dinNptu]$`)
	binaryTest      = lazyregexp.New(`^(=|==|!=|<|>|-(eq|ne|lt|le|gt|ge|nt|ot|ef))$`)
	unaryTest       = lazyregexp.New(`^-[a-zA-Z]$`)
	variableTest    = lazyregexp.New(`^-[vR]$`)
	arithmeticTest  = lazyregexp.New(`^-(eq|ne|lt|le|gt|ge)$`)
	commandPrefixes = []string{"command", "builtin", "exec", "time", "!"}
)

// callNeed is for a slot in a word of a command.
func (p *posix) callNeed(call *syntax.CallExpr, child syntax.Node, quoted bool) need {
	args := call.Args
	index := slices.IndexFunc(args, func(w *syntax.Word) bool { return child == w })
	if index < 0 {
		return anything
	}
	if i := codeArgument(args); i == index {
		return p.codeNeed(args[i])
	}
	for len(args) > 1 && slices.Contains(commandPrefixes, static(args[0])) {
		args, index = args[1:], index-1
	}
	if index <= 0 {
		return anything // the command's name: whoever writes it there wants it run
	}
	word, before := args[index], static(args[index-1])
	switch static(args[0]) {
	case "let":
		return number
	case "eval":
		if len(args) == 2 {
			return p.codeNeed(word)
		}
		return inert
	case "trap":
		if index == 1 || index == 2 && before == "--" {
			return p.codeNeed(word)
		}
	case "alias", "compgen", "complete", "bind", "declare", "typeset", "local", "readonly":
		return inert
	case "export":
		return noSubscript
	case "read":
		if !quoted || !readTextOption.MatchString(before) {
			return noSubscript
		}
	case "unset", "mapfile", "readarray", "getopts", "wait":
		return noSubscript
	case "printf":
		if !quoted || before == "-v" || index > 1 && static(args[1]) == "" {
			return noSubscript
		}
	case "test", "[", "[[":
		return testNeed(args, index, quoted)
	}
	return anything
}

// codeNeed is for a slot in text that is run as code. A word that is nothing but a slot is code by its author's wish.
func (p *posix) codeNeed(w *syntax.Word) need {
	parts := w.Parts
	if len(parts) == 1 {
		if dq, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = dq.Parts
		}
	}
	if len(parts) == 1 {
		if exp, ok := parts[0].(*syntax.ParamExp); ok {
			if _, ok := p.slotOf(exp); ok {
				return anything
			}
		}
	}
	return inert
}

// codeArgument returns the index of the word that a shell among the words gets as code, else -1. The shell need not be the
// first: sudo, env and docker exec come before it.
func codeArgument(args []*syntax.Word) int {
	for i, arg := range args {
		if !slices.Contains(shells, path.Base(static(arg))) {
			continue
		}
		for j := i + 1; j < len(args)-1; j++ {
			text := static(args[j])
			if codeOption.MatchString(text) {
				for j+1 < len(args)-1 && strings.HasPrefix(static(args[j+1]), "-") {
					j++ // options may stand between -c and the code
				}
				return j + 1
			}
		}
	}
	return -1
}

// testNeed is for a slot in an operand of test. An operand that may be taken for an operator could make the next one a name.
func testNeed(args []*syntax.Word, index int, quoted bool) need {
	before, after := static(args[index-1]), ""
	if index+1 < len(args) {
		after = static(args[index+1])
	}
	switch {
	case !quoted || variableTest.MatchString(before):
		return noSubscript
	case static(args[0]) == "[[" && (arithmeticTest.MatchString(before) || arithmeticTest.MatchString(after)):
		return number
	case index == 1 && (after == "" && index+1 == len(args) || after == "]"):
		return anything
	case binaryTest.MatchString(before), binaryTest.MatchString(after), unaryTest.MatchString(before):
		return anything
	}
	return noSubscript
}
