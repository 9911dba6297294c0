package cache

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/source/tree"
)

// TestTheShellComputesTheContentDigest runs what docs/sources.md says that a shell computes the digest with.
func TestTheShellComputesTheContentDigest(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sh", "sha256sum", "find", "readlink"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: the documentation's shell command uses it", program)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sources.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "<!-- content digest -->\n```sh\n")
	script, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/sources.md has no shell command after its mark")
	}

	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"step.yml": 0o644, "run.sh": 0o755, "a b/c  d": 0o600, "a-b/x": 0o644, "a.b": 0o644, "A": 0o644, "ä/ö": 0o644, "back`$quote\"": 0o644,
		".git/HEAD": 0o644, "sub/.git": 0o644, "sub/component.dsse": 0o644, "sub/x.dsse.txt": 0o644, ".hidden": 0o644, " space": 0o644,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content of "+name+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../run.sh", filepath.Join(dir, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	want, err := tree.Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, _, _ := strings.Cut(string(out), " "); "sha256:"+got != want {
		t.Errorf("the shell says %s, tree.Digest %s", got, want)
	}
}
