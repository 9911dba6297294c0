package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAProcessThatIsKilledBeforeItsProgramRunsHasNotStarted kills a process between fork and exec, where it still has this program's command line,
// and where the system reports its start as a success.
func TestAProcessThatIsKilledBeforeItsProgramRunsHasNotStarted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	ready, ended := watch("ready"), make(chan Result, 1)
	go func() {
		result, _ := Run(t.Context(), nil, Spec{Args: []string{os.Args[0]}, Env: testEnv(leaseVariable + "=" + program), Stdout: ready, Stderr: os.Stderr})
		ended <- result
	}()
	select {
	case <-ready.seen:
	case result := <-ended:
		if result.ExitCode == noLease {
			t.Skip("the file system of temporary files has no leases")
		}
		t.Fatalf("the process that was to have a lease ended: %+v", result)
	}
	result, err := Run(t.Context(), nil, Spec{Args: []string{program}, Env: testEnv()})
	if killer := <-ended; killer.ExitCode != 0 {
		t.Fatalf("the process that was to kill ended: %+v", killer)
	}
	var notStarted *StartError
	if !errors.As(err, &notStarted) || notStarted.Kind != nil || result != (Result{ExitCode: -1}) {
		t.Errorf("got %+v, %v; want an error of the start", result, err)
	}
}

// leaseVariable names a program: this test binary has a lease on it, and kills the child of its parent that waits for that in order to execute it.
// It is a process of its own because one that forks is stopped until its child executes something.
const (
	leaseVariable = "RUNG_TEST_LEASE"
	noLease       = 3
)

func init() {
	if program := os.Getenv(leaseVariable); program != "" {
		os.Exit(killWhoExecutes(program))
	}
}

func killWhoExecutes(program string) (code int) {
	file, err := os.OpenFile(program, os.O_RDONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer file.Close()
	opens := make(chan os.Signal, 1)
	signal.Notify(opens, unix.SIGIO)
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return noLease
	}
	fmt.Println("ready")
	<-opens
	code = 1
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if o, ok := inspect(pid); ok && o.parent == os.Getppid() && isForkOnly(pid) && unix.Kill(pid, unix.SIGKILL) == nil {
			code = 0
		}
	}
	return code
}
