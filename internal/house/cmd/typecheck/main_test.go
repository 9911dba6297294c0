package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatDoesNotCompileOnASystemIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module example.com/m\n\ngo 1.26\n",
		"all.go":          "package m\n\nimport \"os\"\n\nvar _ = os.Getpid\n",
		"m_windows.go":    "package m\n\nfunc f() int { return \"text\" }\n",
		"m_plan9_test.go": "package m\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { missing() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{
		"linux/arm64":   "",
		"windows/amd64": "m_windows.go:3:",
		"plan9/amd64":   "undefined: missing",
	} {
		problems, err := check(dir, target, "./...")
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		got := strings.Join(problems, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want it to contain %q", target, got, want)
		}
	}
	if _, err := check(dir, "linux", "./..."); err == nil {
		t.Error("a target without an architecture is accepted")
	}
}
