package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// peak runs the command once and returns its peak memory in KiB. The kernel counts the memory of this process for programs that it starts itself, so that a shell, which
// has little, starts the command and ends. The command is then a child of this process.
func (c command) peak() (int64, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	shell := c.in(append([]string{"/bin/sh", "-c", `"$@" & echo $!`, "sh"}, c.args...)...)
	var number, said bytes.Buffer
	shell.Stdout, shell.Stderr = &number, &said
	if err := shell.Run(); err != nil { // which waits for the command, too, as that has the other end of said
		return 0, err
	}
	line, _, _ := strings.Cut(number.String(), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return 0, err
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	if _, err := syscall.Wait4(pid, &status, 0, &usage); err != nil {
		return 0, err
	}
	if status.ExitStatus() != 0 {
		return 0, fmt.Errorf("%s: exit status %d\n%s", strings.Join(c.args, " "), status.ExitStatus(), said.String())
	}
	return usage.Maxrss, nil
}
