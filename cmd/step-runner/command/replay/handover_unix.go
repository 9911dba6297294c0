//go:build unix

package replay

import (
	"context"
	"syscall"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// takeOver makes this process another program.
func takeOver(_ context.Context, file string, args, env []string) error {
	err := syscall.Exec(file, append([]string{file}, args...), env)
	return exit.Coded(exit.System, "starting %s: %v", file, err)
}
