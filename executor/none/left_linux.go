package none

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// readOnlyFilesStay says whether a file must be writable to be removed.
const readOnlyFilesStay = false

// killLeft kills the processes that a job in the folder root has left: those whose project is in it, by their environment.
func killLeft(root string) {
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
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
