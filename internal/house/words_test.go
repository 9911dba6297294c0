package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const stylePage = "docs/style.md"

// find returns where a text has a phrase of the word list.
func (p phrase) find(text string) (found []int) {
	fine := [][]int{}
	if p.fine != nil {
		fine = p.fine.FindAllStringIndex(text, -1)
	}
	for _, at := range p.pattern.FindAllStringIndex(text, -1) {
		excepted := false
		for _, f := range fine {
			excepted = excepted || f[0] < at[1] && at[0] < f[1]
		}
		if !excepted {
			found = append(found, at[0])
		}
	}
	return found
}

// TestTextsForUsersArePlainEnglish holds what a user reads against the word list: every text in Go code, every document and every file that
// ships with a program or documents a keyword.
func TestTextsForUsersArePlainEnglish(t *testing.T) {
	all := files(t)
	for _, f := range all.written {
		if f.path == "internal/house/words.go" {
			continue
		}
		for _, text := range texts(f.ast) {
			for _, p := range wordList {
				for range p.find(text.value) {
					t.Errorf("%s: %q: not %q, but %q (%s)", all.fset.Position(text.pos), text.value, p.avoid, p.write, stylePage)
				}
			}
		}
	}
	for _, file := range tracked(t) {
		if !readByUsers(file) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root(), filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range wordList {
			for _, at := range p.find(strings.ReplaceAll(string(content), "\n", " ")) {
				t.Errorf("%s:%d: not %q, but %q (%s): %q", file, 1+strings.Count(string(content[:at]), "\n"), p.avoid, p.write, stylePage,
					content[max(0, at-40):min(len(content), at+40)])
			}
		}
	}
}

// readByUsers reports whether people who use the programs read a file that is no Go code.
func readByUsers(file string) bool {
	for part := range strings.SplitSeq(path.Dir(file), "/") {
		if part == "testdata" {
			return false
		}
	}
	switch path.Ext(file) {
	case ".md":
		return file != stylePage
	case ".yml", ".yaml", ".html", ".js", ".css", ".tmpl":
		return true
	}
	return false
}

type text struct {
	pos   token.Pos
	value string
}

// texts are the string literals of a file that can hold a phrase, a sum of literals as one.
func texts(file *ast.File) (found []text) {
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		value, ok := joined(e)
		if !ok {
			return true
		}
		if strings.ContainsAny(value, " \n") {
			found = append(found, text{e.Pos(), value})
		}
		return false
	})
	return found
}

// joined is the text of literals joined by +.
func joined(e ast.Expr) (string, bool) {
	sum, ok := e.(*ast.BinaryExpr)
	if !ok {
		return literal(e)
	}
	left, ok := joined(sum.X)
	if !ok || sum.Op != token.ADD {
		return "", false
	}
	right, ok := joined(sum.Y)
	return left + right, ok
}

func TestTheWordListFindsItsOwnExamplesAndIsOnTheStylePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(), filepath.FromSlash(stylePage)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range wordList {
		if len(p.find(p.avoid)) == 0 {
			t.Errorf("%q is not found in %q", p.pattern, p.avoid)
		}
		if len(p.find(p.write)) != 0 {
			t.Errorf("%q is found in %q, which is what to write", p.pattern, p.write)
		}
		if line := fmt.Sprintf("| %s | %s |\n", p.avoid, p.write); !strings.Contains(string(page), line) {
			t.Errorf("%s lacks the line %s", stylePage, line)
		}
	}
}

// TestFilesAreNamedForTheNounInThem holds the names of Go files, without _test and the system, against fileNames.
func TestFilesAreNamedForTheNounInThem(t *testing.T) {
	for _, file := range tracked(t) {
		if path.Ext(file) != ".go" {
			continue
		}
		stem, _, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".go"), "_")
		if write, ok := fileNames[stem]; ok {
			t.Errorf("%s: %q is not a name that anybody searches for: name %s (%s)", file, stem, write, stylePage)
		}
	}
}
