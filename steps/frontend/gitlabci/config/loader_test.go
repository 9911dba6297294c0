package config_test

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// files is a Loader of files by their places ("a.yml", "group/project@main:a.yml", "https://…", "template:…", "host/…@1").
type files map[string]string

func (f files) Load(_ context.Context, place config.Place) (config.File, error) {
	text, ok := f[place.String()]
	if !ok {
		return config.File{}, fmt.Errorf("asking for %s: %w", place, fs.ErrNotExist)
	}
	if strings.HasPrefix(text, "error: ") {
		return config.File{}, fmt.Errorf("asking for %s: %s", place.Path, strings.TrimPrefix(text, "error: "))
	}
	file := config.File{Data: []byte(text)}
	if place.Kind == config.CatalogComponent {
		address, version, _ := strings.Cut(place.Path, "@")
		_, project, _ := strings.Cut(path.Dir(address), "/")
		file.Place = config.Place{Kind: config.Project, Project: project, Ref: "0123abc", Path: "templates/" + path.Base(address) + ".yml"}
		file.Component = &config.Component{Name: path.Base(address), SHA: "0123abc", Reference: version}
		if !strings.HasPrefix(version, "main") {
			file.Component.Version = version + ".2"
		}
	}
	return file, nil
}

func (f files) Glob(_ context.Context, pattern config.Place) ([]string, error) {
	var out []string
	prefix := ""
	if pattern.Kind == config.Project {
		prefix = strings.TrimSuffix(pattern.String(), pattern.Path)
	}
	for name := range f {
		if name, ok := strings.CutPrefix(name, prefix); ok && !strings.Contains(name, ":") && matches(pattern.Path, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// matches knows * and **.
func matches(pattern, name string) bool {
	if rest, ok := strings.CutPrefix(pattern, "**"); ok {
		for i := 0; i <= len(name); i++ {
			if matches(strings.TrimPrefix(rest, "/"), name[i:]) {
				return true
			}
		}
		return false
	}
	if rest, ok := strings.CutPrefix(pattern, "*"); ok {
		for i := 0; i <= len(name) && (i == 0 || name[i-1] != '/'); i++ {
			if matches(rest, name[i:]) {
				return true
			}
		}
		return false
	}
	if pattern == "" || name == "" {
		return pattern == name
	}
	return pattern[0] == name[0] && matches(pattern[1:], name[1:])
}
