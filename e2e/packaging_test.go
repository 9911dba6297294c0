package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// packaged is a project that uses what we publish for other systems: the component and the action, as they are in this repository.
func packaged(t *testing.T, files map[string]string) (dir string, local func(args ...string) string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	for _, program := range []string{"bash", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	dir = t.TempDir()
	for _, folder := range []string{"templates", "packaging"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	action, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	files["action.yml"] = string(action)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "a project"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	bin := build(t)
	return dir, func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "step-runner"), append([]string{"local", "--project-dir", dir}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("step-runner local %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
}

func TestTheComponentRunsStepsChecksThePipelineAndKeepsTheTrace(t *testing.T) {
	t.Parallel()
	dir, local := packaged(t, map[string]string{
		"steps.yml":      "- {name: hello, script: echo hello from the component}\n",
		".gitlab-ci.yml": "include: {local: templates/step-runner/template.yml, inputs: {as: ours, stage: build}}\n",
	})
	out := local("--isolation", "none")
	for _, want := range []string{"hello from the component", "0 errors, 0 warnings", "OK 2 jobs"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir, ".rung", "artifacts", "ours*", "*"))
	if err != nil || len(kept) < 4 { // archive and junit of one job, code quality of the other, and what is the latest
		t.Errorf("the jobs left %v, %v", kept, err)
	}
}

func TestTheActionRunsStepsChecksFilesAndSaysWhereTheTraceIs(t *testing.T) {
	t.Parallel()
	_, local := packaged(t, map[string]string{
		"steps.yml": "- {name: hello, script: echo hello from the action}\n",
		".github/workflows/ci.yml": `on: push
jobs:
  ours:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: rung
        uses: ./
        with: {steps: steps.yml, lint: .github/workflows/ci.yml, artifact: ""}
      - run: grep -q "hello from the action" "${{ steps.rung.outputs.trace }}" && echo the trace is kept
`,
	})
	out := local("--job-name", "ours")
	for _, want := range []string{"hello from the action", "0 errors, 0 warnings", "the trace is kept"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}
