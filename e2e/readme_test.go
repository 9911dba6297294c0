// Package e2e holds tests across programs and documents: what a reader of this repository is told must be what happens.
package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// console matches a transcript in a document: a command after "$ ", then all that it prints.
var console = regexp.MustCompile("(?s)```console\n\\$ ([^\n]*)\n(.*?)```")

// varying are the parts of a transcript that differ from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "0f5c3a9d0f5c3a9d0f5c3a9d0f5c3a9d"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`), "2026-11-21 12:00:00 UTC"},
	{regexp.MustCompile(`UTC · \S+ (linux|darwin)/\S+`), "UTC · v0.1.0 linux/amd64"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s)\b`), "12ms"},
	{regexp.MustCompile(` {2,}12ms`), "  12ms"},
}

// TestTranscripts runs the commands of the documents' transcripts and compares what they print.
func TestTranscripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git: a pipeline belongs to a repository")
	}
	bin := build(t)
	for _, name := range []string{"README.md", "examples/README.md"} {
		path := filepath.Join(root, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dir := workTree(t)
		fresh := console.ReplaceAllFunc(text, func(block []byte) []byte {
			command := string(console.FindSubmatch(block)[1])
			return fmt.Appendf(nil, "```console\n$ %s\n%s```", command, transcript(t, dir, bin, command))
		})
		switch {
		case *update:
			if err := os.WriteFile(path, fresh, 0o644); err != nil {
				t.Fatal(err)
			}
		case settled(text) != settled(fresh):
			t.Errorf("the transcripts of %s are not what the commands print; run go test ./e2e -update\n%s", name, fresh)
		}
	}
}

// root is the repository's.
const root = ".."

// build builds step-runner and returns the folder that it is in.
func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(bin, "step-runner"), "./cmd/step-runner")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building step-runner: %v\n%s", err, out)
	}
	return bin
}

// settled puts lines in order, because those of steps that run at the same time come in any.
func settled(text []byte) string {
	lines := strings.Split(string(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// workTree returns a folder that holds the examples, so that commands may write beside them.
func workTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// transcript runs a command as a terminal's reader sees it, both streams together, and evens out what varies.
func transcript(t *testing.T, dir, bin, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "NO_COLOR=1", "HOME=" + dir}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.ReplaceAll(even(out.String()), dir+"/", "")
}

// even replaces what differs from run to run.
func even(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// TestShownJob compares the job that the README shows with the one that its transcripts run.
func TestShownJob(t *testing.T) {
	job := read(t, filepath.Join("examples", "demo", "steps.yml"))
	for strings.HasPrefix(job, "#") { // a reader of the README knows what it is
		_, job, _ = strings.Cut(job, "\n")
	}
	if !strings.Contains(read(t, "README.md"), "```yaml\n"+job+"```\n") {
		t.Errorf("the README does not show examples/demo/steps.yml as it is:\n%s", job)
	}
}
