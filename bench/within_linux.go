package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startWithin starts a program that is asked to end when this one has ended, in whatever way. The system watches the thread that has started it, so
// that is one which stays.
func startWithin(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	done := make(chan error, 1)
	starts <- func() { done <- cmd.Start() }
	return <-done
}

// starts are what the thread does that never ends.
var starts = func() chan<- func() {
	all := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range all {
			start()
		}
	}()
	return all
}()
