//go:build unix

package attacks

import (
	"crypto/rand"
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
