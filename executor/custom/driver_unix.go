//go:build unix

package custom

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// supported is why this system has no drivers; nil where it has.
var supported error

// ownGroup starts a program as the first of a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// makePipe makes a named pipe.
func makePipe(path string) error { return syscall.Mkfifo(path, 0o700) }

// pipePause is the time between two looks at whether a pipe has a reader.
const pipePause = 5 * time.Millisecond

// openPipe waits until somebody reads a named pipe, and opens it for writing. ended says that nobody will.
func openPipe(ctx context.Context, path string, ended <-chan struct{}) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil || !errors.Is(err, syscall.ENXIO) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ended:
			return nil, errUnread
		case <-time.After(pipePause):
		}
	}
}

// releasePause is the time between two looks at whether somebody waits for a pipe that has ended.
const releasePause = 100 * time.Millisecond

// release ends the waiting of those who open a named pipe for reading to which nobody will write any more, until ended.
func release(path string, ended <-chan struct{}) {
	for {
		if file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = file.Close()
		}
		select {
		case <-ended:
			return
		case <-time.After(releasePause):
		}
	}
}

// errUnread says that a driver has ended without reading its script.
var errUnread = errors.New("it has not read the script")
