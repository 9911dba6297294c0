package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// FuzzResolve holds Resolve to two promises: it never panics, and it always comes to an end. The text may include itself and
// another text under any name.
func FuzzResolve(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		archive := txtar.Parse(data)
		other := ""
		if len(archive.Files) > 1 {
			other = string(archive.Files[1].Data)
		}
		f.Add(string(archive.Files[0].Data), other)
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		loader := files{".gitlab-ci.yml": text, "a.yml": other, "a/b.yml": other, "group/project:a.yml": other, "https://example.com/a.yml": other}
		c, err := resolve(t, text, loader)
		if c == nil {
			if err == nil {
				t.Fatal("there is neither a configuration nor an error")
			}
			return
		}
		walk(c.Root, 0)
		for _, job := range c.Jobs {
			walk(job.Body, 0)
		}
		if _, err := json.Marshal(c.Root); err != nil {
			t.Fatal(err)
		}
	})
}

// walk asks every node for what it tells.
func walk(n config.Node, level int) int {
	_ = n.History()
	_ = n.At(1, 2)
	count := 1
	for _, it := range n.Items() {
		count += walk(it, level+1)
	}
	for key, v := range n.Entries() {
		count += walk(key, level+1) + walk(v, level+1)
	}
	for level := range n.Flat() {
		count += level
	}
	return count
}
