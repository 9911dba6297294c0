package config

import (
	"fmt"

	"github.com/rungci/rung/executor"
)

// NoShell says why scripts of jobs at a level cannot be run on this machine: the shell of the entry is not found. It is nil where the shell is in an image,
// on another machine, or found when the job is there. find is exec.LookPath.
func (r *Runner) NoShell(level executor.Level, find func(string) (string, error)) error {
	if r.Shell == "" || r.Executor != "shell" || r.Provider != nil || level.Rank() >= executor.Container.Rank() {
		return nil
	}
	_, err := find(r.Shell)
	if err != nil && r.Shell == "bash" { // sh does where there is no bash
		_, err = find("sh")
	}
	if err != nil {
		return fmt.Errorf("jobs are run by %s, by shell in the configuration, and it is not installed: %w", r.Shell, err)
	}
	return nil
}
