//go:build unix

package main

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// send sends a signal to the program that was started last in the background: send HUP.
func send(ts *testscript.TestScript, neg bool, args []string) {
	background := ts.BackgroundCmds()
	signals := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "USR2": syscall.SIGUSR2, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	if neg || len(args) != 1 || signals[args[0]] == 0 || len(background) == 0 {
		ts.Fatalf("usage: send HUP|USR2|QUIT|TERM|KILL, with a program in the background")
	}
	ts.Check(background[len(background)-1].Process.Signal(signals[args[0]]))
}
