package e2e

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestPipeline runs pipelines of a .gitlab-ci.yml on this machine, our own among them.
func TestPipeline(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	for _, program := range []string{"bash", "git", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	enginetest.Optional(t)
	out, err := exec.Command("bash", "pipeline.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"never-on-branches",     // the list says why it is left out
		"coverage 87.5%",        // the summary
		"the job was a success", // after_script
		"\nsame: ",              // replays
		"0 errors, 0 warnings",  // lint
		"OK ",                   // our own pipeline
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}
