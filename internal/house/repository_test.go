package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
)

// root is the folder of the repository.
var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, "..", "..")
})

// systems are those that the programs are built for.
var systems = []string{"linux", "darwin", "windows"}

var listed = sync.OnceValues(func() (map[string][]*Package, error) {
	bySystem := map[string][]*Package{}
	for _, system := range systems {
		packages, err := List(root(), system, "./...")
		if err != nil {
			return nil, err
		}
		bySystem[system] = packages
	}
	return bySystem, nil
})

// packages returns every package of the repository, as each system sees it.
func packages(t *testing.T) map[string][]*Package {
	t.Helper()
	bySystem, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return bySystem
}

// sourceFile is a parsed Go file that people wrote, and that is not a test.
type sourceFile struct {
	path  string // in the repository, with slashes
	pkg   *Package
	ast   *ast.File
	lines int
}

var parsed = sync.OnceValues(func() (*parsedFiles, error) {
	bySystem, err := listed()
	if err != nil {
		return nil, err
	}
	all := &parsedFiles{fset: token.NewFileSet()}
	for _, p := range bySystem["linux"] { // it names the files of the other systems as ignored
		for _, path := range p.Files() {
			file, err := parser.ParseFile(all.fset, path, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			relative, err := filepath.Rel(root(), path)
			if err != nil {
				return nil, err
			}
			src := sourceFile{filepath.ToSlash(relative), p, file, all.fset.File(file.FileStart).LineCount()}
			if ast.IsGenerated(file) {
				all.generated = append(all.generated, src)
			} else {
				all.written = append(all.written, src)
			}
		}
	}
	return all, nil
})

type parsedFiles struct {
	fset               *token.FileSet
	written, generated []sourceFile
}

func files(t *testing.T) *parsedFiles {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tracked returns every file that git tracks or would track, with slashes.
func tracked(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root()
	out, err := cmd.Output()
	if err != nil {
		t.Skip("this is not a git work tree")
	}
	names := strings.Fields(string(out))
	sort.Strings(names)
	return names
}
