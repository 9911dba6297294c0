package jobs

import (
	"context"
	"log/slog"

	"github.com/rungci/rung/cmd/rung/command/supplies"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/manager/config"
)

// Place is where jobs run, for commands of other groups: main gives it to them.
type Place struct {
	// Open and Program are those of manager.Options.
	Open    func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error)
	Program func(system, arch string) (string, error)
	// Machines gives Provider and Connect of manager.Options. observe is told what happens in fleets.
	Machines func(log *slog.Logger, observe func(store.Entry)) (supplies.Provider, supplies.Connector)
}

// NewPlace returns a place that uses a step-runner, as --step-runner names it; empty is the one beside this program.
func NewPlace(p *command.Program, stepRunner string) Place {
	s := programs{file: stepRunner}
	return Place{Open: open(p), Program: s.find, Machines: func(log *slog.Logger, observe func(store.Entry)) (supplies.Provider, supplies.Connector) {
		to := supplies.Connect(s.find)
		return supplies.Open(p, nil, to, log, observe), to
	}}
}
