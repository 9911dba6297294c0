// Package house enforces the rules of the repository: its tests check every package against rules.go and every text against words.go.
//
// The rules are few, and written as tables so that they can be read. A change that needs another rule changes the table,
// where a reviewer sees it.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modulePath is the prefix of our own packages' import paths.
const modulePath = "github.com/rungci/rung"

// Package is what the go command says of one package.
type Package struct {
	ImportPath   string
	Name         string
	Dir          string
	Standard     bool
	Module       *struct{ Path string }
	GoFiles      []string
	CgoFiles     []string
	IgnoredFiles []string `json:"IgnoredGoFiles"`
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Folder is the package's folder in the repository, with slashes: "" is the root.
func (p *Package) Folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, modulePath), "/")
}

// Files are the package's Go files for every system, without tests.
func (p *Package) Files() []string {
	var files []string
	for _, names := range [][]string{p.GoFiles, p.CgoFiles, p.IgnoredFiles} {
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				files = append(files, filepath.Join(p.Dir, name))
			}
		}
	}
	return files
}

// List runs "go list" in the repository, for the given system ("" is this one), and returns the packages that it names.
func List(root, goos string, args ...string) ([]*Package, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-json"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if goos != "" {
		cmd.Env = append(cmd.Env, "GOOS="+goos)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	var packages []*Package
	for dec := json.NewDecoder(&stdout); ; {
		p := &Package{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// matches reports whether a folder is what a pattern stands for.
func matches(pattern, folder string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return folder == above || strings.HasPrefix(folder, above+"/")
	}
	return folder == pattern
}

func matchesAny(patterns []string, folder string) bool {
	for _, pattern := range patterns {
		if matches(pattern, folder) {
			return true
		}
	}
	return false
}

// ours returns the folder of an import path of ours.
func ours(importPath string) (folder string, ok bool) {
	if importPath == modulePath {
		return "", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// moduleOf returns which of the modules an import path belongs to, "" when it is none of them.
func moduleOf(importPath string, modules []string) string {
	longest := ""
	for _, module := range modules {
		if (importPath == module || strings.HasPrefix(importPath, module+"/")) && len(module) > len(longest) {
			longest = module
		}
	}
	return longest
}

// standard reports whether an import path is of the standard library: its first part has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
