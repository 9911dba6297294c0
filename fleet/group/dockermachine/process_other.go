//go:build !unix

package dockermachine

import (
	"os"
	"os/exec"
)

func apart(cmd *exec.Cmd) { cmd.WaitDelay = waitDelay }

func killGroup(number int) {
	if p, err := os.FindProcess(number); err == nil {
		_ = p.Kill()
	}
}
