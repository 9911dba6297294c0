package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
)

// PluginUse is a plugin that a configuration names.
type PluginUse struct {
	// Kind is what it is for: executor, provider or group.
	Kind string
	// Name is the text of the configuration: "aws", "aws:1", "registry.example.com/ci/aws:1". File is the program, where that is named.
	Name, File string
	// Folder and SHA256 are as in Plugin; empty where they are not given.
	Folder, SHA256 string
	// Runner is the name of the entry.
	Runner string
	// At is the place in the file.
	At diag.Span
}

// embeddedGroups are the instance groups that are part of the program.
var embeddedGroups = []string{"local", "static", "docker-machine"}

// Plugins are those that the text of a configuration names, in its order. The error is that of a file that is no TOML.
func Plugins(name string, text []byte) (all []PluginUse, err error) {
	doc, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	runners, _ := folded(doc.values, "runners").([]any)
	for i, r := range runners {
		entry, _ := r.(map[string]any)
		of, _ := folded(entry, "name").(string)
		note := func(kind, key, path string, table map[string]any) {
			use := PluginUse{Kind: kind, Runner: of}
			use.Name, _ = folded(table, key).(string)
			use.File, _ = folded(table, "file").(string)
			use.Folder, _ = folded(table, "folder").(string)
			use.SHA256, _ = folded(table, "sha256").(string)
			if use.Name == "" && use.File == "" || kind == "group" && slices.Contains(embeddedGroups, use.Name) {
				return
			}
			use.At, _ = doc.at(fmt.Sprintf("runners[%d].%s.%s", i, path, key), doc.vals)
			all = append(all, use)
		}
		for _, from := range []struct{ kind, table, key string }{{"executor", "plugin", "name"}, {"provider", "provider", "name"}, {"group", "autoscaler", "plugin"}} {
			if table, ok := folded(entry, from.table).(map[string]any); ok {
				note(from.kind, from.key, from.table, table)
			}
		}
		fleet, _ := folded(entry, "fleet").(map[string]any)
		pools, _ := folded(fleet, "pools").([]any)
		for n, pool := range pools {
			if table, ok := pool.(map[string]any); ok {
				note("group", "plugin", fmt.Sprintf("fleet.pools[%d]", n), table)
			}
		}
	}
	return all, nil
}

// folded is the value of a key, whose case does not matter.
func folded(table map[string]any, key string) any {
	if value, ok := table[key]; ok {
		return value
	}
	for name, value := range table {
		if strings.EqualFold(name, key) {
			return value
		}
	}
	return nil
}

// SamePlugin reports whether two names of a configuration mean the same plugin, in whatever version.
func SamePlugin(a, b string) bool {
	plain := func(text string) string {
		text, _, _ = strings.Cut(text, "@")
		if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') {
			text = text[:i]
		}
		return text
	}
	return plain(a) == plain(b)
}
