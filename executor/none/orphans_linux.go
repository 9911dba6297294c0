package none

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// killLeft kills the processes that a job in the folder root has left: those whose project is in it, by their environment.
func killLeft(root string) {
	for range killTries {
		if !killOnce(root) {
			return
		}
		time.Sleep(killPause) // what was killed is there a little longer
	}
}

// How often, and how fast, killLeft looks again for processes that it has killed, or that were started meanwhile.
const (
	killTries = 100
	killPause = 5 * time.Millisecond
)

// killOnce reports whether it found a process.
func killOnce(root string) (found bool) {
	prefix := []byte("CI_PROJECT_DIR=" + root + string(filepath.Separator))
	processes, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range processes {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or is another user's
		}
		if bytes.HasPrefix(env, prefix) || bytes.Contains(env, append([]byte{0}, prefix...)) {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}
