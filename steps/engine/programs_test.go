//go:build unix

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	first := identify("tool", env, "/", maxInterpreters)()
	if first == nil || first.Path != resolved || !strings.HasPrefix(first.Digest, "sha256:") {
		t.Fatalf("got %v, want the file %s and its digest", first, resolved)
	}
	for name, again := range map[string]*event.Program{
		"by its path":          identify(tool, nil, "/", maxInterpreters)(),
		"relative to a folder": identify("./tool", nil, dir, maxInterpreters)(),
		"once more":            identify("tool", env, "/", maxInterpreters)(),
	} {
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("%s: got %v, want %v", name, again, first)
		}
	}
	if first.Version != "" || first.Interpreter == nil || !strings.HasPrefix(first.Interpreter.Digest, "sha256:") {
		t.Errorf("its interpreter is %+v", first.Interpreter)
	}
	write("echo two, and longer")
	if other := identify("tool", env, "/", maxInterpreters)(); other == nil || other.Digest == first.Digest {
		t.Errorf("the file has changed, and is still %v", other)
	}
	for _, name := range []string{"no-such-tool", "./missing", dir} {
		if got := identify(name, env, "/", maxInterpreters)(); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestInterpretersOfTheSystemSayTheirVersion asks bash, and no program of the same name that a step may have made.
func TestInterpretersOfTheSystemSayTheirVersion(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bash": "#!/bin/sh\ntouch " + dir + "/ran; echo 9.9\n", "script": "#!/usr/bin/env bash\necho\n", "loop": "#!" + dir + "/loop\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if fake := identify("bash", []string{"PATH=" + dir}, "/", maxInterpreters)(); fake == nil || fake.Version != "" {
		t.Errorf("a program of that name says %+v", fake)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it was run to be asked")
	}
	if loop := identify(filepath.Join(dir, "loop"), nil, "/", maxInterpreters)(); loop == nil || loop.Interpreter == nil {
		t.Errorf("a script that interprets itself is %+v", loop)
	}
	script := identify(filepath.Join(dir, "script"), []string{"PATH=" + dir}, "/", maxInterpreters)()
	if script == nil || script.Interpreter == nil || filepath.Base(script.Interpreter.Path) != "bash" || filepath.Dir(script.Interpreter.Path) == "/usr/bin" {
		t.Errorf("the interpreter that env finds is %+v", script)
	}
	for _, path := range []string{"/usr/bin/bash", "/bin/bash"} {
		if real, err := filepath.EvalSymlinks(path); err == nil && ofTheSystem(real) && ofTheSystem(filepath.Dir(real)) {
			if got := identify(path, nil, "/", maxInterpreters)(); got == nil || !strings.Contains(got.Version, "bash") {
				t.Errorf("%s says %+v", path, got)
			}
		}
	}
}
