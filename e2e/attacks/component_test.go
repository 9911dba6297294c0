//go:build unix

package attacks

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestAHostileComponentLearnsNothingFromTheRunnersProcess looks where the system shows a process to others of its user: its environment,
// memory, descriptors and command line.
func TestAHostileComponentLearnsNothingFromTheRunnersProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // there is no /proc, and docs/security.md says what another process can see
	}
	for name, script := range map[string]string{
		"environment":                  `cat /proc/$PPID/environ`,
		"environment of all processes": `cat /proc/[0-9]*/environ`,
		"command line":                 `cat /proc/$PPID/cmdline`,
		"the environment in memory": `
range=$(grep -F '[stack]' /proc/$PPID/maps | cut -d' ' -f1)
dd if=/proc/$PPID/mem bs=4096 skip=$((0x${range%-*} / 4096)) count=$(((0x${range#*-} - 0x${range%-*}) / 4096))`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary := "canary-" + rand.Text() // other tests run at the same time, and their secrets may be seen for a moment
			v := newVictim(t, "TOKEN="+canary, "LOOSE="+canary)
			v.write("hostile/func.yml", "spec: {}\n---\nexec:\n  script: |\n    { "+indent(script)+"\n    } >loot 2>/dev/null || true\n")
			v.write("steps.yml", "- {name: before, script: 'echo \"${#TOKEN}\" >used', secrets: [TOKEN]}\n- {name: hostile, step: ./hostile}\n")
			v.mustRun("run", "steps.yml", "--secret", "TOKEN")
			if got := strings.TrimSpace(v.read("used")); got != strconv.Itoa(len(canary)) {
				t.Errorf("the step that was granted the secret got %q characters", got)
			}
			if strings.Contains(v.read("loot"), canary) {
				t.Errorf("the component got %q", v.read("loot"))
			}
		})
	}
}

// indent fits a script into a block of YAML.
func indent(script string) string { return strings.ReplaceAll(script, "\n", "\n    ") }

// TestAKilledRunnerLeavesNothing kills step-runner with SIGKILL while a step runs that has done all to stay.
func TestAKilledRunnerLeavesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // nothing outlives the program there that could look after what it ran
	}
	for name, stay := range map[string]string{
		"a child":                            `sleep 1000 &`,
		"a daemon with a session of its own": `setsid sh -c 'echo $$ >>pids; exec sleep 1000' </dev/null >/dev/null 2>&1 &`,
		"a daemon's daemon":                  `setsid sh -c 'setsid sh -c "echo \$\$ >>pids; exec sleep 1000" & exit' </dev/null >/dev/null 2>&1 &`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, "TOKEN=canary-"+rand.Text())
			v.write("steps.yml", "- name: stay\n  secrets: [TOKEN]\n  script: |\n    echo $$ >>pids\n    "+stay+"\n    echo $! >>pids\n    sleep 1000\n")
			cmd := v.command("run", "steps.yml", "--secret", "TOKEN")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			v.await("the watchdog runs, and the step", func() bool {
				return len(strings.Fields(v.read("pids"))) >= 2 && hasChild(cmd.Process.Pid, "step-runner\x00watchdog\x00")
			})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, pid := range strings.Fields(v.read("pids")) {
				v.await("process "+pid+" has ended", func() bool { return !runs(pid) })
			}
			v.await("the folders are gone", func() bool {
				left, err := os.ReadDir(filepath.Join(v.dir, "tmp"))
				return err == nil && len(left) == 0
			})
		})
	}
}

// runs reports whether a process exists and is not dead.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return state[0] != 'Z' && state[0] != 'X'
}

// hasChild reports whether a process has a child with the command line.
func hasChild(parent int, cmdline string) bool {
	var children []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		children = append(children, strings.Fields(string(text))...)
	}
	for _, pid := range children {
		if text, _ := os.ReadFile("/proc/" + pid + "/cmdline"); string(text) == cmdline {
			return true
		}
	}
	return false
}

// TestNoSecretIsWrittenToDisk looks for a secret in all that a run writes, while it goes on and afterwards: in scripts, files of inputs, logs
// that wait until all secrets are known, traces.
func TestNoSecretIsWrittenToDisk(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // files in memory are Linux's; elsewhere they are in the run's own folder, and removed
	}
	canary := "canary-" + rand.Text()
	v := newVictim(t, "TOKEN="+canary)
	look := `grep -rlaF -- "$TOKEN" "` + v.dir + `" >>"${{ work_dir }}/leaks" || true`
	v.write("login/func.yml", `
spec: {secrets: {TOKEN: {}}, outputs: {key: {type: string, sensitive: true}}}
---
exec:
  script: |
    for i in $(seq 30000); do echo "a long log that holds $TOKEN, and waits"; done
    `+look+`
    echo "{\"name\":\"key\",\"value\":\"$TOKEN\"}" >"${{ output_file }}"
`)
	v.write("use/func.yml", `
spec: {secrets: {TOKEN: {}}, inputs: {key: {type: string, sensitive: true}}}
---
exec:
  script: |
    test "${{ inputs.key }}" = "$TOKEN"
    grep -q "$TOKEN" "${{ input_file }}"
    `+look+`
`)
	v.write("steps.yml", `
- {name: login, step: ./login, secrets: [TOKEN]}
- {name: use, step: ./use, inputs: {key: "${{ steps.login.outputs.key }}"}, secrets: [TOKEN]}
- {name: perl, secrets: [TOKEN], shell: "sh -e {0}", script: 'test "${{ steps.login.outputs.key }}" = "$TOKEN"; `+strings.ReplaceAll(look, "'", "''")+`'}
`)
	v.mustRun("run", "steps.yml", "--secret", "TOKEN", "--output-file", "trace.json")
	if leaks := v.read("leaks"); leaks != "" {
		t.Errorf("during the run the secret was in\n%s", leaks)
	}
	err := filepath.WalkDir(v.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("after the run the secret is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
