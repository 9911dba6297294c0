package shellscript

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Use is a variable that a script of a POSIX shell expands.
type Use struct {
	Name string
	// Offset is where its name begins in the text, in bytes.
	Offset int
	// Default says that the script is prepared for a variable that is not set: ${NAME:-x}, ${NAME+x}, ${NAME:?x}, [ -z "$NAME" ].
	Default bool
}

// Uses returns the variables that a script expands, every place of them, but not those that it assigns itself. It is nil for a text that does
// not parse.
func Uses(text string) []Use {
	file, _, err := parseText(text)
	if err != nil {
		return nil
	}
	var out []Use
	var set []string
	asked := map[*syntax.ParamExp]bool{}
	ask := func(n syntax.Node) {
		for node := range syntax.Preorder(n) {
			if p, ok := node.(*syntax.ParamExp); ok {
				asked[p] = true
			}
		}
	}
	for node := range syntax.Preorder(file) {
		switch n := node.(type) {
		case *syntax.ParamExp:
			if n.Param != nil {
				out = append(out, Use{n.Param.Value, int(n.Param.Pos().Offset()), asked[n] || n.Exp != nil && isDefault[n.Exp.Op]})
			}
		case *syntax.UnaryTest:
			if n.Op == syntax.TsEmpStr || n.Op == syntax.TsNempStr {
				ask(n.X)
			}
		case *syntax.Assign:
			if n.Name != nil {
				set = append(set, n.Name.Value)
			}
		case *syntax.WordIter:
			set = append(set, n.Name.Value)
		case *syntax.CallExpr:
			set = append(set, readInto(n)...)
			for i, arg := range n.Args[:max(0, len(n.Args)-1)] {
				if is := arg.Lit(); (is == "-z" || is == "-n") && slices.Contains([]string{"[", "test"}, n.Args[0].Lit()) {
					ask(n.Args[i+1])
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(u Use) bool { return slices.Contains(set, u.Name) })
}

// isDefault are the operators that ask whether a variable is set.
var isDefault = map[syntax.ParExpOperator]bool{
	syntax.AlternateUnset: true, syntax.AlternateUnsetOrNull: true, syntax.DefaultUnset: true, syntax.DefaultUnsetOrNull: true,
	syntax.ErrorUnset: true, syntax.ErrorUnsetOrNull: true, syntax.AssignUnset: true, syntax.AssignUnsetOrNull: true,
}

// readInto are the variables that `read`, `mapfile` and `getopts` set.
func readInto(n *syntax.CallExpr) (out []string) {
	if len(n.Args) == 0 || !slices.Contains([]string{"read", "mapfile", "readarray", "getopts", "printf"}, n.Args[0].Lit()) {
		return nil
	}
	for _, arg := range n.Args[1:] {
		out = append(out, arg.Lit())
	}
	return out
}

// What people are told of a script that Unclosed finds something in: the message of the parser follows.
const (
	UnclosedMessage = "the shell does not find the end of what begins here: "
	UnclosedHint    = "a shell reads all lines of the script together"
)

// Unclosed returns where something begins that a script never ends: a quote, a here-document, an `if`. The offset is in bytes. ok is false for
// a text that is complete, and for one that no shell here can parse for another reason: it may be for another shell.
func Unclosed(text string) (offset int, message string, ok bool) {
	var first syntax.ParseError
	for i, variant := range variants {
		_, err := syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), "")
		if _, open := openHeredoc(err); err == nil || !open && !syntax.IsIncomplete(err) { // the parser calls no quoted one incomplete
			return 0, "", false
		}
		if i == 0 && !errors.As(err, &first) {
			return 0, "", false
		}
	}
	return int(first.Pos.Offset()), first.Text, true
}
