package main

import (
	"context"
	"os"

	"github.com/rungci/rung/internal/process"
)

// takeOver runs another program in the place of this one, and exits as it does.
func takeOver(ctx context.Context, file string, args, env []string) error {
	result, err := process.Run(ctx, nil, process.Spec{
		Args: append([]string{file}, args...), Env: unique(env), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return coded(exitSystem, "starting %s: %v", file, err)
	}
	if result.ExitCode != exitOK {
		return &shown{result.ExitCode}
	}
	os.Exit(exitOK)
	return nil
}
