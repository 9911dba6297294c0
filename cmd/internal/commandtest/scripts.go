package commandtest

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest"
)

// Main runs the tests of a program's package. Scripts start the program by its name; run is its main, which returns the exit code.
func Main(m *testing.M, name string, run func() int) {
	testscript.Main(tests{m}, map[string]func(){name: func() { exit(run()) }})
}

// tests are those of a package; what they have built goes with the last of them.
type tests struct{ *testing.M }

// Run implements testscript.TestingM.
func (t tests) Run() int {
	defer executortest.RemoveProgram()
	if signal.Ignored(syscall.SIGHUP) { // under nohup: the programs that tests start have their own way with it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return t.M.Run()
}

// exit ends a program that tests have started. A step has an environment of its own, without GORACE, so that the race detector would wait a
// second at the end of each: such a program ends without it.
func exit(code int) {
	if os.Getenv("GORACE") == "" {
		syscall.Exit(code)
	}
	os.Exit(code)
}

// Exits is a command of scripts that runs a command and checks its exit code: exits CODE COMMAND [ARG ...]. What it prints is there for stdout
// and stderr.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG ...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
