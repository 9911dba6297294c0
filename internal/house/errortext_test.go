package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// comparesText names the functions of package strings that look into a text, or take parts of it away.
var comparesText = []string{
	"Contains", "ContainsAny", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "HasPrefix", "HasSuffix", "Index", "LastIndex", "Replace",
	"ReplaceAll", "Split", "SplitN", "ToLower", "ToUpper", "TrimLeft", "TrimPrefix", "TrimRight", "TrimSuffix",
}

// errorTexts are the fields that hold a sentence about a failure.
var errorTexts = []string{"Message", "Reason", "Hint", "Why"}

// TestNothingDecidesByTheTextOfAnError finds code that looks into the sentence of an error instead of at its code, type or fields. The
// table textReaders has what may: views, and what gets nothing but text from a program or library of others.
func TestNothingDecidesByTheTextOfAnError(t *testing.T) {
	used := map[string]bool{}
	all := files(t)
	for _, f := range all.written {
		if strings.HasSuffix(path.Dir(f.path), "test") {
			continue // a suite, which holds messages against what they must say
		}
		for _, at := range textReads(f.ast) {
			if textReaders[f.path] == "" {
				t.Errorf("%s: this looks into the text of an error: give the error a code or a field (steps/event, docs/errors.md), or add the file to textReaders",
					all.fset.Position(at))
			}
			used[f.path] = true
		}
	}
	for file := range textReaders {
		if !used[file] {
			t.Errorf("%s does not look into the text of an error any more: remove it from textReaders", file)
		}
	}
}

// textReads are the places in a file that look into the text of an error.
func textReads(file *ast.File) (places []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			fn, ok := n.Fun.(*ast.SelectorExpr)
			if ok && isName(fn.X, "strings") && slices.Contains(comparesText, fn.Sel.Name) && slices.ContainsFunc(n.Args, isErrorText) &&
				!slices.ContainsFunc(n.Args, isBlank) {
				places = append(places, n.Pos())
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isErrorText(n.X) && isSentence(n.Y) || isErrorText(n.Y) && isSentence(n.X)) {
				places = append(places, n.Pos())
			}
		}
		return true
	})
	return places
}

// isErrorText reports whether an expression is the text of an error: x.Error(), x.Message and the like.
func isErrorText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		fn, ok := e.Fun.(*ast.SelectorExpr)
		if ok && len(e.Args) == 0 && fn.Sel.Name == "Error" {
			return true
		}
		return ok && isName(fn.X, "strings") && slices.ContainsFunc(e.Args, isErrorText)
	case *ast.SelectorExpr:
		return slices.Contains(errorTexts, e.Sel.Name)
	}
	return false
}

// isBlank reports a text of nothing but white space: it splits lines.
func isBlank(e ast.Expr) bool {
	text, ok := literal(e)
	return ok && strings.TrimSpace(text) == ""
}

// isSentence reports a text that is written out.
func isSentence(e ast.Expr) bool {
	text, ok := literal(e)
	return ok && text != ""
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func TestTextReadsAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`strings.Contains(err.Error(), "x")`:                       1,
		`strings.HasPrefix(strings.ToLower(e.Message), "x")`:       2,
		`strings.TrimPrefix(b.Reason, p)`:                          1,
		`err.Error() == "x"`:                                       1,
		`"x" != e.Message`:                                         1,
		`e.Message != ""`:                                          0,
		`e.Message == other.Message`:                               0,
		`strings.Split(e.Message, "\n")`:                           0,
		`fmt.Sprint(e.Message)`:                                    0,
		`strings.Contains(text, "x") && strings.TrimSpace(e.Hint)`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nvar _ = "+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(textReads(file)); got != want {
			t.Errorf("%s: found %d times, want %d", text, got, want)
		}
	}
}
