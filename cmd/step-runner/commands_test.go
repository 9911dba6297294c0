package main

import (
	"os"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// signalBackground sends a signal to the background commands once a file is there: signal NAME FILE.
func signalBackground(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal INT|TERM|HUP|KILL FILE")
	}
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}
	file := ts.MkAbs(args[1])
	for range 1000 {
		if exists(file) {
			for _, cmd := range ts.BackgroundCmds() {
				ts.Check(cmd.Process.Signal(signals[args[0]]))
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not appear", args[1])
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
