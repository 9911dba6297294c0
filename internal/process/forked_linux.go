package process

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// forkedOnly is the kernel's flag of a process that was forked and has not executed a program (PF_FORKNOEXEC).
const forkedOnly = 0x40

// cldKilled is the kernel's reason of an end by a signal (CLD_KILLED).
const cldKilled = 2

// forkedKilled reports whether the main process, which has ended and is not reaped, was killed before it was the program that it was to
// be: by whoever took it for this program, whose command line it had. The system reports such a start as a success.
func (c *child) forkedKilled() bool {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil || info.Code != cldKilled {
		return false
	}
	return isForkOnly(c.pid)
}

// isForkOnly reports whether a process, dead or not, has not executed a program since it was forked.
func isForkOnly(pid int) bool {
	data, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&forkedOnly != 0
}
