package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// concealedName makes the test binary a program that conceals itself.
const concealedName = "PROCESS_TEST_CONCEALED"

func TestAConcealedProgramShowsNeitherEnvironmentNorMemory(t *testing.T) {
	if text := os.Getenv(concealedName); text != "" { // the program
		err := Conceal()
		dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		fmt.Println("concealed", err, dumpable, os.Getenv(concealedName) == text)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return
	}
	const canary = "canary-in-a-cage"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), concealedName+"="+canary)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "concealed <nil> 0 true\n" {
		t.Errorf("the program said %q, %v", line, err)
	}
	for _, file := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
		if strings.Contains(string(text), canary) {
			t.Errorf("%s still shows what the program was started with: %q", file, text)
		}
		if os.Getuid() != 0 && file == "environ" && err == nil {
			t.Error("a process of the same user may open the environment")
		}
	}
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
