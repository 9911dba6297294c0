package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryFile returns a file with the content that is on no disk, for Spec.Files.
func MemoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("step", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "step")
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// FilePath is where a process finds the file with the index in its Spec.Files.
func FilePath(index int) string { return fmt.Sprintf("/proc/self/fd/%d", firstFile+index) }
