package shellscript

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Mark makes the text of a script for a POSIX shell record in a file the line of the statement that it has reached, so that whoever runs it
// knows which one failed: the file ends with the last one, and a comma. Lines count from 1. Only statements that begin on a wanted line are
// recorded. Marks append, because some file systems write a file to the disk when it was truncated.
//
// The script behaves as before. Marks are on the line of their statement, so lines keep their numbers; they write nothing to the script's
// output, whatever its shell traces; they set no variable, trap or option. A mark resets $?, so a statement that may read it has none.
// Bodies of loops and functions have none either: they may run often. The line of the loop, or of the call, is recorded.
//
// A text that does not parse is marked up to where a shell stops reading it, as bash and sh run what is before that; see Broken. One in a
// language that has no marks is returned as it is.
func Mark(text string, d Dialect, file string, wanted func(line int) bool) string {
	if d != Bash && d != Sh && d != Zsh || strings.Contains(text, "verbose") { // `set -o verbose` prints the text of the script, marks included
		return text
	}
	if d == Zsh && strings.Contains(strings.ToLower(strings.ReplaceAll(text, "_", "")), "xtrace") {
		return text
	}
	tree, _, err := parseText(text)
	if err != nil && d == Zsh {
		return text
	}
	if err != nil {
		tree = &syntax.File{Stmts: readable(text)}
	}
	m := marker{mark: "{ command printf %d, >>" + Quote(file, Sh) + " || :; } 2>/dev/null; ", wanted: wanted, readers: map[string]bool{}}
	if d == Zsh { // there `command` runs a program, and noclobber keeps >> from making a file
		m.mark = "{ builtin printf %d, >>|" + Quote(file, Sh) + " || :; } 2>/dev/null; "
	}
	for node := range syntax.Preorder(tree) {
		switch n := node.(type) {
		case *syntax.FuncDecl:
			m.readers[n.Name.Value] = m.readsStatus(n.Body)
			if d == Zsh && strings.HasPrefix(n.Name.Value, "TRAP") {
				return text
			}
		case *syntax.CallExpr:
			if observes(n, d) {
				return text
			}
		}
	}
	m.list(tree.Stmts)
	return apply(text, m.edits)
}

// Broken returns the line of a script for bash or sh at which the shell stops reading it, because nothing that it could mean begins there or because
// what begins there has no end, and the line of the last statement before it that Mark marks, both 0 where there is none. A script that has
// recorded that line and ended as shells do at such a text (2) has failed at the first.
func Broken(text string, d Dialect, wanted func(line int) bool) (line, before int) {
	if d != Bash && d != Sh {
		return 0, 0
	}
	_, _, err := parseText(text)
	var parse syntax.ParseError
	if !errors.As(err, &parse) {
		return 0, 0
	}
	m := marker{wanted: wanted, readers: map[string]bool{}}
	for _, s := range readable(text) {
		if f, is := s.Cmd.(*syntax.FuncDecl); is {
			m.readers[f.Name.Value] = m.readsStatus(f.Body)
		}
		marks := len(m.edits)
		if m.list([]*syntax.Stmt{s}); len(m.edits) > marks && s.Pos().Line() < parse.Pos.Line() { // a shell runs nothing of a line that it cannot read
			before = int(s.Pos().Line())
		}
	}
	return int(parse.Pos.Line()), before
}

// readable are the statements before the first that no shell can read.
func readable(text string) (out []*syntax.Stmt) {
	for s, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			break
		}
		out = append(out, s)
	}
	return out
}

// marker collects the marks of a script.
type marker struct {
	mark    string // with %d for the line
	wanted  func(line int) bool
	readers map[string]bool // functions of the script that may read $?
	edits   []edit
	last    uint // the line of the last mark
}

func (m *marker) list(list []*syntax.Stmt) {
	for _, s := range list {
		if _, ok := s.Cmd.(*syntax.FuncDecl); ok {
			continue
		}
		if m.readsStatus(s) {
			continue
		}
		if line := s.Pos().Line(); line != m.last && m.wanted(int(line)) {
			at := int(s.Pos().Offset())
			m.edits = append(m.edits, edit{at, at, strings.Replace(m.mark, "%d", strconv.Itoa(int(line)), 1)})
			m.last = line
		}
		if !s.Background && !s.Coprocess {
			m.inside(s.Cmd)
		}
	}
}

// inside marks the statements of a command that runs them once, in turn.
func (m *marker) inside(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.IfClause:
		for branch := c; branch != nil; branch = branch.Else {
			m.list(branch.Then)
			m.last = 0 // the next statement may follow another branch
		}
	case *syntax.CaseClause:
		for _, item := range c.Items {
			m.list(item.Stmts)
			m.last = 0
		}
	case *syntax.Block:
		m.list(c.Stmts)
	case *syntax.Subshell:
		m.list(c.Stmts)
	}
}

// statusNames are the parameters that a mark changes: $_ and PIPESTATUS are bash's, status and pipestatus zsh's.
var statusNames = []string{"?", "_", "PIPESTATUS", "status", "pipestatus"}

// readsStatus reports whether a statement may read what a mark before it changes.
func (m *marker) readsStatus(s *syntax.Stmt) bool {
	for node := range syntax.Preorder(s) {
		switch n := node.(type) {
		case *syntax.ParamExp:
			if n.Param != nil && slices.Contains(statusNames, n.Param.Value) {
				return true
			}
		case *syntax.CallExpr:
			name := callee(n)
			if m.readers[name] || len(n.Args) == 1 && (name == "exit" || name == "return") {
				return true
			}
		}
	}
	return false
}

// observes reports whether a call makes the shell show or hand over every command: `set -v`, and a trap before each. Zsh traces where its
// standard error was, so that a mark would show: `set -x`.
func observes(c *syntax.CallExpr, d Dialect) bool {
	name := callee(c)
	for _, arg := range c.Args {
		switch text := arg.Lit(); {
		case name == "trap" && text == "DEBUG", name == "set" && strings.HasPrefix(text, "-") && strings.Contains(text, "v"):
			return true
		case d == Zsh && (name == "set" || name == "setopt") && strings.HasPrefix(text, "-") && strings.Contains(text, "x"):
			return true
		case d == Zsh && name == "trap" && text == "ZERR":
			return true
		}
	}
	return false
}

func callee(c *syntax.CallExpr) string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0].Lit()
}
