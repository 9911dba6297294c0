//go:build unix && !linux

package main

import (
	"fmt"
	"strings"
	"syscall"
)

// peak runs the command once and returns its peak memory as this system counts it.
func (c command) peak() (int64, error) {
	cmd := c.in(c.args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, out)
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return usage.Maxrss, nil
}
