//go:build unix

package endpoint

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openDescriptor opens a pipe that this program was started with.
func openDescriptor(fd int) (*os.File, error) {
	var found syscall.Stat_t
	if err := syscall.Fstat(fd, &found); err != nil {
		return nil, &fs.PathError{Op: "open", Path: fmt.Sprintf("descriptor %d", fd), Err: err}
	}
	if found.Mode&syscall.S_IFMT != syscall.S_IFIFO { // this program has opened something else by that number
		return nil, fmt.Errorf("descriptor %d is not a pipe", fd)
	}
	if fd <= 2 { // Go ends a program that writes to a broken pipe there
		var err error
		if fd, err = syscall.Dup(fd); err != nil {
			return nil, &fs.PathError{Op: "open", Path: "a standard stream", Err: err}
		}
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, &fs.PathError{Op: "open", Path: fmt.Sprintf("descriptor %d", fd), Err: err}
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("descriptor %d", fd)), nil
}
