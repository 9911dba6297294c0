//go:build unix

package plugin_test

import (
	"syscall"
	"testing"
)

// stop stops a process, so that it does not answer.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// alive reports whether a process runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
