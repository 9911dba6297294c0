package shellscript

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// Reads returns the variables that a script of a POSIX shell expands, in order, but not those that it assigns itself. It is nil for a text
// that does not parse and for other dialects.
func Reads(text string, d Dialect) []string {
	if d != Sh && d != Bash {
		return nil
	}
	file, _, err := parseText(text)
	if err != nil {
		return nil
	}
	var read, set []string
	for node := range syntax.Preorder(file) {
		switch n := node.(type) {
		case *syntax.ParamExp:
			if n.Param != nil && !slices.Contains(read, n.Param.Value) {
				read = append(read, n.Param.Value)
			}
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil {
				set = append(set, n.Name.Value)
			}
		case *syntax.WordIter:
			set = append(set, n.Name.Value)
		}
	}
	return slices.DeleteFunc(read, func(name string) bool { return slices.Contains(set, name) })
}
