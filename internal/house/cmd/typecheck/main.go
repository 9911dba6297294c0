// Command typecheck checks that every package and its tests compile on other systems: typecheck OS/ARCH…
//
// It reads sources and generates no code. "go vet" or "go build" for a system compiles the standard library and all
// dependencies for it first, which takes minutes on a machine that has not done so before; this takes seconds.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

func main() {
	ok := true
	for _, target := range os.Args[1:] {
		start := time.Now()
		problems, err := check(".", target, "./...")
		if err != nil {
			fmt.Fprintln(os.Stderr, "typecheck:", err)
			os.Exit(2)
		}
		for _, problem := range problems {
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, problem)
		}
		if len(problems) > 0 {
			ok = false
			continue
		}
		fmt.Printf("compiles for %s (checked in %.0fs)\n", target, time.Since(start).Seconds())
	}
	if !ok {
		os.Exit(1)
	}
}

// check returns what keeps the packages in dir from compiling for a target, OS/ARCH.
func check(dir, target string, patterns ...string) ([]string, error) {
	system, arch, ok := strings.Cut(target, "/")
	if !ok {
		return nil, fmt.Errorf("%q is not OS/ARCH", target)
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
		Dir:   root,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
		Fset:  token.NewFileSet(),
		Tests: true,
		// What functions of other modules do is not our concern: their declarations are enough.
		ParseFile: func(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				for _, declaration := range file.Decls {
					if f, ok := declaration.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("no packages match %s", strings.Join(patterns, " "))
	}
	problems := map[string]bool{} // a package and its tests have the same ones
	for _, p := range loaded {
		if strings.HasSuffix(p.PkgPath, ".test") {
			continue // the main package that the go command makes of tests
		}
		for _, e := range p.Errors {
			problems[strings.TrimPrefix(e.Error(), root+string(filepath.Separator))] = true
		}
	}
	return slices.Sorted(maps.Keys(problems)), nil
}
