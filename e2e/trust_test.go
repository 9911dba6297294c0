package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// shell is a block of shell commands in a document.
var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestTrust runs the job whose steps come from everywhere, and holds the page that tells it against the script.
func TestTrust(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("trust.sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the page shows what the script does, in its order", func(t *testing.T) {
		page, err := os.ReadFile(filepath.Join(root, "docs", "trust.md"))
		if err != nil {
			t.Fatal(err)
		}
		rest := string(script)
		for _, block := range shell.FindAllStringSubmatch(string(page), -1) {
			_, after, ok := strings.Cut(rest, block[1])
			if !ok {
				t.Fatalf("this is not in e2e/trust.sh, or not in this order:\n%s", block[1])
			}
			rest = after
		}
	})
	t.Run("the script runs", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("needs bash")
		}
		for _, program := range []string{"bash", "git", "ssh-keygen"} {
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("needs %s", program)
			}
		}
		out, err := exec.Command("bash", "trust.sh").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{
			"HELLO WORLD HAS 11 LETTERS!",
			"steps.lock: 3 packages, 3 components",
			"signed by    SHA256:",
			"changed.json is not the trace that was signed",
			"and 3 packages",
			"\nsame: 5 steps",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the output has no %q:\n%s", want, out)
			}
		}
	})
}
