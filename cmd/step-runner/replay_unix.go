//go:build unix

package main

import (
	"context"
	"syscall"
)

// takeOver makes this process another program.
func takeOver(_ context.Context, file string, args, env []string) error {
	err := syscall.Exec(file, append([]string{file}, args...), env)
	return coded(exitSystem, "starting %s: %v", file, err)
}
