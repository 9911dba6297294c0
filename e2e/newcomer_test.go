package e2e

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestNewcomer runs the commands of the README in a fresh clone, with an empty home, and compares what they print with what it shows.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	for _, program := range []string{"bash", "git", "make", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	if err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("needs a clone of the repository")
	}
	out, err := exec.Command("bash", "newcomer.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shown, printed := console.FindAllStringSubmatch(read(t, "README.md"), -1), console.FindAllStringSubmatch(string(out), -1)
	if len(shown) != len(printed) || len(shown) == 0 {
		t.Fatalf("the README has %d transcripts, the newcomer saw %d:\n%s", len(shown), len(printed), out)
	}
	for i := range shown {
		if want, got := shown[i][0], even(printed[i][0]); settled([]byte(want)) != settled([]byte(got)) {
			t.Errorf("the README shows\n%s\nthe newcomer saw\n%s", want, got)
		}
	}
	for _, command := range []string{"make demo", "step-runner replay"} {
		if !strings.Contains(string(out), "\nrun: "+command) && !strings.HasPrefix(string(out), "run: "+command) {
			t.Errorf("the newcomer never came to %q:\n%s", command, out)
		}
	}
}
