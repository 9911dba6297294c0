package scarcity

import (
	"errors"
	"syscall"
)

// The system's errors for a full disk: ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL.
const handleDiskFull, fullDisk = syscall.Errno(39), syscall.Errno(112)

func diskFull(err error) bool { return errors.Is(err, handleDiskFull) || errors.Is(err, fullDisk) }
