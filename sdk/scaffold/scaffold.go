// Package scaffold writes new plugins: a program that passes the suite of its kind, with what it takes to build, try and publish it.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/rungci/rung/sdk/python"
)

//go:embed all:templates
var templates embed.FS

// Languages and Kinds are what there is: one plugin for each pair.
var (
	Languages = []string{"go", "python"}
	Kinds     = []string{"executor", "provider", "group"}
)

// Plugin is what to write.
type Plugin struct {
	// Name is that of the plugin: lower-case letters, digits and -.
	Name string
	// Kind and Language are of Kinds and Languages.
	Kind, Language string
	// Version is that of Rung's module, for Go: "v1.2.3"; empty leaves it to `go mod tidy`.
	Version string
}

// Program is the name of the plugin's file.
func (p *Plugin) Program() string { return p.Kind + "-plugin-" + p.Name }

// Go is the version of the language that the SDK needs.
func (p *Plugin) Go() string { return "1.26.0" }

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// ErrName says that a name cannot be that of a plugin.
var ErrName = errors.New("the name of a plugin must begin with a letter, and have lower-case letters, digits and -, at most 40")

// Write writes the plugin into a folder, which it makes and which must not be there, or be empty. It returns the files that it has written.
func (p *Plugin) Write(folder string) (files []string, err error) {
	if !namePattern.MatchString(p.Name) {
		return nil, fmt.Errorf("%w: %q", ErrName, p.Name)
	}
	if there, err := os.ReadDir(folder); err == nil && len(there) > 0 {
		return nil, fmt.Errorf("%s: %w, and is not empty", folder, fs.ErrExist)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	root := path.Join("templates", p.Language+"-"+p.Kind)
	all, err := templates.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("there is no plugin of the kind %q in the language %q", p.Kind, p.Language)
	}
	write := func(name string, text []byte) error {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		files = append(files, name)
		return os.WriteFile(file, text, 0o644)
	}
	for _, entry := range all {
		text, err := p.fill(path.Join(root, entry.Name()))
		if err != nil {
			return nil, err
		}
		if err := write(strings.TrimSuffix(entry.Name(), ".tmpl"), text); err != nil {
			return nil, err
		}
	}
	if p.Language != "python" {
		return files, nil
	}
	return files, fs.WalkDir(python.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".py") {
			return err
		}
		text, err := python.Files.ReadFile(name)
		if err != nil {
			return err
		}
		return write(name, text)
	})
}

// fill fills a template.
func (p *Plugin) fill(name string) ([]byte, error) {
	text, err := templates.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	err = t.Execute(&b, p)
	return []byte(b.String()), err
}
