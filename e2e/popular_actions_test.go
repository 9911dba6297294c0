package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// actionsDir names a folder of clones of actions, OWNER/NAME, with their tags.
const actionsDir = "RUNG_ACTIONS_DIR"

// popularActions are workflow jobs that use widely used actions as they are. %d is the major version. A job ends well only when the action
// did what it is for.
var popularActions = []struct {
	repository string
	majors     []int
	steps      string
}{
	{"actions/checkout", []int{4, 5, 6, 7}, `
      - uses: actions/checkout@v%d
        with: {path: sub}
        env: {GIT_CONFIG_COUNT: 1, GIT_CONFIG_KEY_0: "url.file://PROJECT.insteadOf", GIT_CONFIG_VALUE_0: "https://github.com/group/project"}
      - run: test "$(cat sub/tracked.txt)" = "in the repository"
`},
	{"actions/setup-go", []int{4, 5, 6, 7}, `
      - uses: actions/setup-go@v%d
        with: {go-version: 1.99.1, cache: false}
      - run: test "$(go)" = "a tool of the cache"
`},
	{"actions/setup-node", []int{4, 5, 6, 7}, `
      - uses: actions/setup-node@v%d
        with: {node-version: 99.1.0, package-manager-cache: false}
      - run: test "$(node --version)" = "a tool of the cache"
`},
	{"actions/setup-python", []int{4, 5, 6, 7}, `
      - uses: actions/setup-python@v%d
        with: {python-version: 3.99.1}
      - run: test "$(python)" = "a tool of the cache"
`},
	{"actions/cache", []int{4, 5}, `
      - uses: actions/cache@v%[1]d
        id: first
        with: {path: kept, key: "key-%[1]d"}
      - run: test "${{ steps.first.outputs.cache-hit }}" != true && mkdir kept && echo "text" >kept/file
      - uses: actions/cache/save@v%[1]d
        with: {path: kept, key: "key-now-%[1]d"}
      - run: rm -r kept
      - uses: actions/cache/restore@v%[1]d
        id: again
        with: {path: kept, key: "key-%[1]d-none", restore-keys: "key-now-"}
      - run: test "$(cat kept/file)" = text
`},
	{"actions/upload-artifact", []int{4, 5, 6, 7}, `
      - run: mkdir out && echo "made here" >out/file.txt
      - uses: actions/upload-artifact@v%d
        id: up
        with: {name: result, path: out, if-no-files-found: error}
      - run: test -n "${{ steps.up.outputs.artifact-id }}"
`},
	{"actions/download-artifact", []int{4, 5, 6, 7, 8}, `
      - run: mkdir out && echo "made here" >out/file.txt
      - uses: actions/upload-artifact@v4
        with: {name: result, path: out}
      - uses: actions/download-artifact@v%d
        with: {name: result, path: in}
      - run: test "$(cat in/file.txt)" = "made here"
`},
	{"actions/github-script", []int{6, 7, 8}, `
      - uses: actions/github-script@v%d
        id: js
        with:
          script: |
            core.notice('seen')
            const repo = await github.rest.repos.get(context.repo)
            return repo.data.full_name
          result-encoding: string
      - run: test "${{ steps.js.outputs.result }}" = group/project
`},
}

// TestPopularActionsRunAsTheyAre runs them from the clones that RUNG_ACTIONS_DIR names, and tells which it could not find.
func TestPopularActionsRunAsTheyAre(t *testing.T) {
	clones := os.Getenv(actionsDir)
	if clones == "" {
		t.Skipf("needs clones of the actions: %s is not set", actionsDir)
	}
	for _, program := range []string{"git", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	bin := build(t)
	tools := toolCache(t)
	for _, c := range popularActions {
		for _, major := range c.majors {
			t.Run(fmt.Sprintf("%s@v%d", c.repository, major), func(t *testing.T) {
				clone := filepath.Join(clones, c.repository)
				if err := exec.Command("git", "-C", clone, "rev-parse", "--verify", "--quiet", fmt.Sprintf("v%d^{commit}", major)).Run(); err != nil {
					t.Skipf("not found: %s has no v%d", clone, major)
				}
				if missing := missingObjects(clone, major); missing != "" {
					t.Skipf("not found: %s v%d is not whole: %s", clone, major, missing)
				}
				runPopular(t, bin, clones, tools, fmt.Sprintf(c.steps, major))
			})
		}
	}
}

// missingObjects names a file of the version that the clone does not hold; "" when it is whole.
func missingObjects(clone string, major int) string {
	out, err := exec.Command("git", "-C", clone, "ls-tree", "-r", "-l", fmt.Sprintf("v%d", major)).Output()
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[3] == "BAD" {
			return fields[4]
		}
	}
	return ""
}

// runPopular runs a job of the steps in a repository of its own, with nothing of this user's.
func runPopular(t *testing.T, bin, clones, tools, steps string) {
	t.Helper()
	home, project := t.TempDir(), filepath.Join(t.TempDir(), "project")
	files := map[string]string{
		".github/workflows/ci.yml": "on: push\npermissions: {contents: read}\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:" + strings.ReplaceAll(steps, "PROJECT", project),
		"tracked.txt":              "in the repository\n",
		".rung/sources.toml":       fmt.Sprintf("[[source]]\nmatch = \"github.com/\"\nreplace = %q\n", "file://"+clones+"/"),
		".gitignore":               ".rung\n",
	}
	for name, text := range files {
		path := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "RUNNER_TOOL_CACHE="+tools)
	for _, args := range [][]string{
		{"git", "init", "-q", "-b", "main"}, {"git", "remote", "add", "origin", "https://github.com/group/project.git"}, {"git", "add", "."},
		{"git", "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one"},
		{filepath.Join(bin, "step-runner"), "local", ".github/workflows/ci.yml", "--isolation", "none", "--progress", "plain", "--real-checkout"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = project, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// toolCache is a tool cache that holds tools which say where they are from.
func toolCache(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, path := range []string{"go/1.99.1/x64/bin/go", "node/99.1.0/x64/bin/node", "Python/3.99.1/x64/bin/python", "Python/3.99.1/x64/python"} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho a tool of the cache\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		arch := filepath.Join(root, strings.Join(strings.Split(path, "/")[:3], "/"))
		if err := os.WriteFile(arch+".complete", nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
