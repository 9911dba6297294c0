package none

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// killLeft kills the processes that a job in the folder root has left: those whose project is in it, by their environment, and the step-runner whose socket
// is in it. Its environment is overwritten, and a job can have stopped it.
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
	serving := []byte("\x00--socket\x00" + filepath.Join(root, socketName) + "\x00")
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(process, "cmdline")) // without what cannot be read: it has ended, or is another user's
		env, _ := os.ReadFile(filepath.Join(process, "environ"))
		if bytes.Contains(args, serving) || bytes.HasPrefix(env, prefix) || bytes.Contains(env, append([]byte{0}, prefix...)) {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}
