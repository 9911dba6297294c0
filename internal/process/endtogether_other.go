//go:build unix && !linux

package process

import "syscall"

// endTogether does nothing: only Linux ends a process with its parent.
func endTogether(*syscall.SysProcAttr) {}
