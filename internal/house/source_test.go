package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPackages(t *testing.T) {
	documented := map[string]bool{}
	all := files(t)
	for _, f := range slices.Concat(all.written, all.generated) {
		if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			documented[f.pkg.ImportPath] = true
		}
	}
	for _, p := range packages(t)["linux"] {
		if len(p.Files()) > 0 && !documented[p.ImportPath] {
			t.Errorf("the package %s has no comment that says what it is", p.Folder())
		}
		last := p.Folder()[strings.LastIndexByte(p.Folder(), '/')+1:]
		if slices.Contains(vagueNames, p.Name) || slices.Contains(vagueNames, last) {
			t.Errorf("the package %s has a name that says nothing: name it for the one idea in it", p.Folder())
		}
	}
}

func TestSize(t *testing.T) {
	all := files(t)
	for _, f := range all.written {
		if f.lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it by idea", f.path, f.lines, maxFileLines)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				return true
			}
			lines := all.fset.Position(fn.Body.Rbrace).Line - all.fset.Position(fn.Body.Lbrace).Line - 1
			if lines > maxFunctionLines {
				t.Errorf("%s: the function %s has %d lines, more than %d", all.fset.Position(fn.Pos()), fn.Name.Name, lines, maxFunctionLines)
			}
			return true
		})
	}
}

func TestTypesHaveFewMethods(t *testing.T) {
	methods := map[string]map[string]bool{} // by type; systems may have a method each
	for _, f := range files(t).written {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				name := strings.Trim(f.pkg.Folder()+"."+receiver(fn), ".")
				if methods[name] == nil {
					methods[name] = map[string]bool{}
				}
				methods[name][fn.Name.Name] = true
			}
		}
	}
	counts := map[string]int{}
	for name, of := range methods {
		counts[name] = len(of)
	}
	checkLimit(t, counts, maxMethods, manyMethods, "the type %s has %d methods, more than %d: split it by what it knows")
}

func TestPackagesImportFew(t *testing.T) {
	counts := map[string]int{}
	for _, p := range packages(t)["linux"] {
		for _, path := range p.Imports {
			if _, own := ours(path); own {
				counts[p.Folder()]++
			}
		}
	}
	checkLimit(t, counts, maxImports, manyImports, "the package %s imports %d of our packages, more than %d: split it")
}

// checkLimit holds counts against a limit. Exceptions have their own, which are exact, so that they shrink.
func checkLimit(t *testing.T, counts map[string]int, limit int, exceptions map[string]int, message string) {
	t.Helper()
	for name, count := range counts {
		if allowed, ok := exceptions[name]; ok {
			if count < allowed {
				t.Errorf("%s has %d now: lower its number in rules.go, or remove it if that is at most %d", name, count, limit)
			} else if count > allowed {
				t.Errorf(message, name, count, allowed)
			}
		} else if count > limit {
			t.Errorf(message, name, count, limit)
		}
	}
	for name := range exceptions {
		if _, ok := counts[name]; !ok {
			t.Errorf("%s does not exist: remove it from the exceptions in rules.go", name)
		}
	}
}

// receiver is the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	total, documented := 0, 0
	var missing []string
	all := files(t)
	for _, f := range all.written {
		if f.ast.Name.Name == "main" {
			continue
		}
		for _, e := range exported(f.ast) {
			if total++; e.documented {
				documented++
			} else {
				missing = append(missing, fmt.Sprintf("%s: %s", all.fset.Position(e.pos), e.name))
			}
		}
	}
	share := float64(documented) / float64(max(total, 1))
	t.Logf("%d of %d exported names have a comment (%.0f %%)", documented, total, 100*share)
	if share < minDocumented {
		t.Errorf("that is less than %.0f %%; these have none:\n%s", 100*minDocumented, strings.Join(missing, "\n"))
	}
}

type exportedName struct {
	name       string
	pos        token.Pos
	documented bool
}

// exported returns the exported names of a file: functions, methods of exported types, types, constants and variables. A
// comment on a group of constants or variables is one on each of them.
func exported(file *ast.File) []exportedName {
	var names []exportedName
	add := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		if id.IsExported() {
			has := slices.ContainsFunc(docs, func(doc *ast.CommentGroup) bool { return doc != nil })
			names = append(names, exportedName{id.Name, id.Pos(), has})
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if !obvious(d) {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name, d.Doc, s.Doc, s.Comment)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id, d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return names
}

// obvious reports whether a method needs no comment: it is of a type that is not exported, or one that every reader knows.
func obvious(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if generic, ok := recv.(*ast.IndexExpr); ok {
		recv = generic.X
	}
	id, ok := recv.(*ast.Ident)
	return ok && !id.IsExported() || slices.Contains([]string{"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap"}, fn.Name.Name)
}

// maxTracked bounds a file of the repository, in bytes: what is larger is a program or data that was added by mistake.
const maxTracked = 512 << 10

func TestFilesAreSmall(t *testing.T) {
	for _, name := range tracked(t) {
		if info, err := os.Lstat(filepath.Join(root(), name)); err == nil && info.Size() > maxTracked {
			t.Errorf("%s has %d bytes, more than %d: make it in the test, or let a script fetch it", name, info.Size(), maxTracked)
		}
	}
}

// maxScanned bounds the files that are searched for banned text, in bytes.
const maxScanned = 4 << 20

func TestNoBannedText(t *testing.T) {
	patterns := map[*regexp.Regexp]string{}
	for pattern, why := range bannedText {
		patterns[regexp.MustCompile(pattern)] = why
	}
	for _, name := range tracked(t) {
		text, err := os.ReadFile(filepath.Join(root(), name))
		if err != nil || len(text) > maxScanned || !utf8.Valid(text) {
			continue
		}
		for pattern, why := range patterns {
			for _, place := range pattern.FindAllIndex(text, 5) {
				line := 1 + bytes.Count(text[:place[0]], []byte("\n"))
				t.Errorf("%s:%d: %q: %s", name, line, text[place[0]:place[1]], why)
			}
		}
	}
}
