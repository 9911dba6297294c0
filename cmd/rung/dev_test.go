package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor/executortest"
)

// A pipeline comes out through GitLab and a runner as step-runner local lets it.
func TestDevRunEndsAsLocalDoes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("jobs here are shell scripts")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git, as jobs do")
	}
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"example": "",
		"needs and failures": `
stages: [a, b, c]
ok: {stage: a, script: "true"}
may: {stage: a, script: exit 1, allow_failure: true}
codes: {stage: a, script: exit 4, allow_failure: {exit_codes: [4]}}
bad: {stage: b, script: exit 2}
early: {stage: c, needs: [ok], script: "true"}
of bad: {stage: c, needs: [bad], script: "true"}
after: {stage: c, script: "true"}
mend: {stage: c, when: on_failure, script: "true"}
always: {stage: c, when: always, script: "true"}
`,
		"manual jobs": `
stages: [a, b, c]
press: {stage: a, when: manual, script: "true"}
gate: {stage: b, when: manual, allow_failure: false, script: "true"}
free: {stage: c, needs: [], script: "true"}
`,
		"matrix and artifacts": `
stages: [a, b]
make: {stage: a, parallel: {matrix: [{X: [one, two]}]}, script: ["mkdir o && echo $X >o/$X", "echo D_$X=$X >d.env"], artifacts: {paths: [o], reports: {dotenv: d.env}}}
all: {stage: b, script: ["test $(cat o/one)$(cat o/two) = onetwo", "test $D_one$D_two = onetwo"]}
one: {stage: b, needs: ["make: [one]"], script: ["test -f o/one", "test ! -e o/two"]}
none: {stage: b, dependencies: [], script: test ! -e o}
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			if text == "" {
				if err := os.CopyFS(project, os.DirFS(filepath.Join("..", "..", "examples", "pipeline"))); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(filepath.Join(project, ".gitlab-ci.yml"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			run := func(program string, args ...string) string {
				cmd := exec.Command(program, args...)
				cmd.Dir = project
				cmd.Env = append(os.Environ(), "NO_COLOR=1", "LANG=C.UTF-8", "HOME="+t.TempDir(), "GIT_CONFIG_GLOBAL="+os.DevNull,
					"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
				out, err := cmd.CombinedOutput()
				if cmd.ProcessState == nil {
					t.Fatal(err)
				}
				return string(out)
			}
			for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-qm", "first"}} {
				run("git", args...)
			}
			local, dev := run(program, "local", "--isolation", "none"), run("rung", "dev", "run", "--quiet", "--step-runner", program)
			want, got := localStates(local), devStates(dev)
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 3 {
				t.Errorf("%s\nlocal:\n%s\ndev:\n%s", diff, local, dev)
			}
		})
	}
}

var (
	localLine = regexp.MustCompile(`(?m)^(?:✓|✗|–|!) (\S.*?)  +\S+  +(success|failed|allowed to fail|skipped|manual|stopped)\b`)
	devLine   = regexp.MustCompile(`(?m)^(\S.*?) +\| . (success|failed|skipped|manual|canceled)\b(.*)$`)
)

// localStates are the states of jobs that local prints in the end.
func localStates(text string) map[string]string {
	out := map[string]string{}
	for _, m := range localLine.FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// devStates are those that rung dev run prints. A job that waits for one that nobody starts has not begun; local says that it was skipped.
func devStates(text string) map[string]string {
	out := map[string]string{}
	for _, m := range devLine.FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2]
		if strings.HasSuffix(m[3], "which is allowed") {
			out[m[1]] = "allowed to fail"
		}
	}
	return out
}
