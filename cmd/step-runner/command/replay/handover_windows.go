package replay

import (
	"context"
	"os"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/process"
)

// takeOver runs another program in the place of this one, and exits as it does.
func takeOver(ctx context.Context, file string, args, env []string) error {
	result, err := process.Run(ctx, nil, process.Spec{
		Args: append([]string{file}, args...), Env: unique(env), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return exit.Coded(exit.System, "starting %s: %v", file, err)
	}
	if result.ExitCode != exit.OK {
		return exit.Shown(result.ExitCode)
	}
	os.Exit(exit.OK)
	return nil
}
