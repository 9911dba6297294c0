//go:build unix

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

func TestTheProgramsThatRanAreIdentified(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool-1.2")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("echo one")
	if err := os.Symlink(tool, filepath.Join(dir, "tool")); err != nil {
		t.Fatal(err)
	}
	resolved, err := filepath.EvalSymlinks(tool)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=/", "PATH=/nowhere:" + dir}
	first := identify([]string{"tool"}, env, "/")()
	if first == nil || first.Path != resolved || !strings.HasPrefix(first.Digest, "sha256:") {
		t.Fatalf("got %v, want the file %s and its digest", first, resolved)
	}
	for name, again := range map[string]*event.Program{
		"by its path":          identify([]string{tool}, nil, "/")(),
		"relative to a folder": identify([]string{"./tool"}, nil, dir)(),
		"once more":            identify([]string{"tool"}, env, "/")(),
	} {
		if again == nil || *again != *first {
			t.Errorf("%s: got %v, want %v", name, again, first)
		}
	}
	write("echo two, and longer")
	if other := identify([]string{"tool"}, env, "/")(); other == nil || other.Digest == first.Digest {
		t.Errorf("the file has changed, and is still %v", other)
	}
	for _, name := range []string{"no-such-tool", "./missing", dir} {
		if got := identify([]string{name}, env, "/")(); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
