//go:build unix

package dockermachine

import (
	"os/exec"
	"syscall"
)

// apart gives a command a process group, which ends with it: drivers are processes of their own.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { killGroup(cmd.Process.Pid); return nil }
	cmd.WaitDelay = waitDelay
}

func killGroup(number int) { _ = syscall.Kill(-number, syscall.SIGKILL) }
