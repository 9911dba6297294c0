package e2e

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestActions runs actions beside steps and scripts, and a workflow, as users do.
func TestActions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	for _, program := range []string{"bash", "git", "node", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	enginetest.Optional(t)
	out, err := exec.Command("bash", "actions.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wanted := []string{
		"greet gets ready", // pre
		"hello everybody, this is 1.4.2 of a GitLab Step", // outputs and variables, both ways
		"note 1: 1.4.2 has 1 line",
		"the note was: 1.4.2 has 1 line", // post, with state
		"it is not in the lock file",
		"built texts-1.0.0.tar",
		"10 words",
		"the artifact says 'made of main'",
	}
	if os.Getenv(enginetest.Variable) != "" {
		wanted = append(wanted,
			"from an image",
			"the box is opened for hush",
			"in /github/workspace, opened: hush | two words | of hush",
			"the box said hush and two words, hush",
			"2 lines, by a container in a composite action",
			"the box is closed, it was opened",
			"│ hello from the service",
			"beside: hello from the service",
		)
	}
	for _, want := range wanted {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "\ndifferent: ") {
		t.Errorf("a replay is not the same:\n%s", out)
	}
}
