package replay

import (
	"context"
	"fmt"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/levels"
	"github.com/rungci/rung/executor"
	jobenv "github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/ui"
)

// services starts what ran beside a recorded run on the machine itself, behind the same ports: the steps know them. end removes it.
func (r *replaying) services(ctx context.Context, recorded *trace.Trace) (end func(), err error) {
	env := recorded.Run.Environment
	if env == nil || !onThisMachine(env) || len(env.Services) == 0 || r.isolation == inEnvironment {
		return func() {}, nil
	}
	if r.isolation == "none" {
		r.notes = append(r.notes, "the recorded run had services, and this one has none (--isolation none)")
		return func() {}, nil
	}
	described, err := r.filled(&recorded.Run)
	if err != nil {
		return nil, err
	}
	places := levels.New(r.Program, &r.Session.From, "")
	level, err := places.OpenContainer()
	if err != nil {
		places.Close()
		return nil, exit.Coded(exit.System, "the recorded run had services, and no container engine is available: %v", err).Hinted("start Docker or Podman; --isolation none replays it without them")
	}
	starter, ok := level.(executor.ServiceStarter)
	if !ok {
		places.Close()
		return nil, exit.Coded(exit.System, "the recorded run had services, which this engine cannot start next to it")
	}
	job := jobenv.Job(described)
	job.ID, job.ProjectName = "replay-services", "replay"
	started, err := starter.StartServices(ctx, job, func(p event.Preparing) {
		if !r.Quiet {
			if line := ui.Preparing(p); line != "" {
				r.Program.Tell(line)
			}
		}
	})
	if err != nil {
		places.Close()
		return nil, placeError(ctx, err)
	}
	end = func() {
		if err := jobenv.End(ctx, started.Close); err != nil {
			fmt.Fprintf(r.Program.Stderr, "warning: the services were not removed: %v\n", err)
		}
		places.Close()
	}
	if err := r.sameImages(imagesOf(described), started.Images()); err != nil {
		end()
		return nil, err
	}
	return end, nil
}
