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
	killAtOnce(t, Spec{}, func() { EnableWatchdog(os.Args[0], "-test.run=^$") }, true)
}

func TestAProcessEndsWithAProgramThatHasNoWatchdogOfItsOwn(t *testing.T) {
	killAtOnce(t, Spec{}, EndTogether, true)
}

func TestAProcessThatOutlivesItsProgramRunsOnWhenThatIsKilled(t *testing.T) {
	killAtOnce(t, Spec{Outlives: true}, func() { EnableWatchdog(os.Args[0], "-test.run=^$") }, false)
}

// watchedName makes the test binary a program that says whether it has a watchdog.
const watchedName = "PROCESS_TEST_WATCHED"

// testWatchdog is the name under which the test binary is its own watchdog.
const testWatchdog = "watchdog of a test"

func init() {
	if os.Args[0] == testWatchdog {
		Watchdog(os.Stdin)
		os.Exit(0)
	}
}

func TestAShortProcessThatSeesToItsOwnNeedsNoWatchdog(t *testing.T) {
	if run := os.Getenv(watchedName); run != "" { // the program
		EnableWatchdog(testWatchdog)
		tidy, sleep, _ := strings.Cut(run, " ")
		_, err := Run(t.Context(), nil, Spec{Args: []string{"sleep", sleep}, Env: testEnv(), Tidy: tidy == "tidy"})
		fmt.Println("watched:", family.watchdog != nil, err)
		return
	}
	for run, want := range map[string]string{"other 0.2": "watched: true <nil>", "tidy 0.2": "watched: false <nil>", "tidy 1.5": "watched: true <nil>"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), watchedName+"="+run)
		if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %q, %v", run, out, err)
		}
	}
}

// killAtOnce kills a program, this test started again, as soon as it has started its first process, and says whether that process ends too.
func killAtOnce(t *testing.T, spec Spec, enable func(), ends bool) {
	t.Helper()
	if os.Getenv(killedName) != "" { // the program
		enable()
		spec.Args, spec.Env = []string{"sleep", "1000"}, testEnv()
		spec.Started = func(pid int) {
			fmt.Println(pid)
			_ = unix.Kill(os.Getpid(), unix.SIGKILL) // before a watchdog is started
		}
		_, _ = Run(t.Context(), nil, spec)
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
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	if !ends {
		time.Sleep(100 * time.Millisecond) // the kernel kills at once, where it does
		if isEnded(pid) {
			t.Errorf("process %d has ended", pid)
		}
		return
	}
	const looks = 1000 // 10 s
	for range looks {
		if isEnded(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives on", pid)
}
