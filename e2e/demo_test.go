package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestDemoOfTheLevels runs the part of the demo that has a pipeline on each level of isolation, where there is a container engine.
func TestDemoOfTheLevels(t *testing.T) {
	t.Parallel()
	host := enginetest.Host(t)
	runsc := filepath.Join(root, "build/runsc") // where scripts/engines.sh builds it
	if _, err := os.Stat(runsc); err != nil {
		enginetest.Skip(t, "runsc")
	}
	bin := t.TempDir()
	for _, program := range []string{"step-runner", "rung"} {
		build := exec.Command(filepath.Join(root, "scripts/build.sh"), filepath.Join(bin, program), "./cmd/"+program)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	demo := exec.Command(filepath.Join(root, "scripts/demo-levels.sh"), t.TempDir())
	demo.Env = append(os.Environ(), "DOCKER_HOST="+host, "RUNG_RUNSC="+runsc, "RUNG="+filepath.Join(bin, "rung"))
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for level, jobs := range map[string]int{"none": 2, "cgroup": 2, "container": 3, "sandbox": 3} {
		_, run, found := strings.Cut(string(out), "--isolation "+level+" ")
		run, _, ended := strings.Cut(run, "Pipeline success")
		if !found || !ended || strings.Count(run, "✓ success") != jobs {
			t.Errorf("on level %s not all of %d jobs succeeded:\n%s", level, jobs, out)
		}
	}
}
