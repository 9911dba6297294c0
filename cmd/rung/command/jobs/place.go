package jobs

import (
	"context"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
)

// Place is where jobs run, for commands of other groups: main gives it to them.
type Place struct {
	// Open and Program are those of manager.Options.
	Open    func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error)
	Program func(system, arch string) (string, error)
}

// NewPlace returns a place that uses a step-runner, as --step-runner names it; empty is the one beside this program.
func NewPlace(p *command.Program, stepRunner string) Place {
	s := programs{file: stepRunner}
	return Place{Open: open(p), Program: s.find}
}
