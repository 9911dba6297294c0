package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// killedName makes the test binary a program that is killed as soon as it has started its first process.
const killedName = "PROCESS_TEST_KILLED"

func TestTheFirstProcessEndsWithAProgramThatIsKilledAtOnce(t *testing.T) {
	if os.Getenv(killedName) != "" { // the program
		EnableWatchdog(os.Args[0], "-test.run=^$")
		_, _ = Run(t.Context(), nil, Spec{
			Args: []string{"sleep", "1000"}, Env: testEnv(),
			Started: func(pid int) {
				fmt.Println(pid)
				_ = unix.Kill(os.Getpid(), unix.SIGKILL) // before the watchdog is started
			},
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), killedName+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	_ = cmd.Wait()
	pid, perr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || perr != nil {
		t.Fatalf("the program said %q: %v, %v", line, err, perr)
	}
	const looks = 1000 // 10 s
	for range looks {
		if isEnded(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	t.Errorf("process %d lives on", pid)
}
