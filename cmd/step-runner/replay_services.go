package main

import (
	"context"
	"fmt"

	"github.com/rungci/rung/executor"
	place "github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/trace"
)

// services starts what ran beside a recorded run on the machine itself, behind the same ports: the steps know them. end removes it.
func (r *replaying) services(ctx context.Context, recorded *trace.Trace) (end func(), err error) {
	env := recorded.Run.Environment
	if env == nil || env.Level != string(executor.None) || len(env.Services) == 0 || r.isolation == inEnvironment {
		return func() {}, nil
	}
	if r.isolation == "none" {
		r.notes = append(r.notes, "the recorded run had services, and this one has not (--isolation none)")
		return func() {}, nil
	}
	described, err := filled(env, r.options.Given)
	if err != nil {
		return nil, err
	}
	places := &places{app: r.app, from: &r.session.from}
	level, err := places.openContainer()
	if err != nil {
		places.close()
		return nil, coded(exitSystem, "the recorded run had services, and there is no engine: %v", err).hinted("start Docker or Podman; --isolation none replays it without them")
	}
	starter, ok := level.(executor.ServiceStarter)
	if !ok {
		places.close()
		return nil, coded(exitSystem, "the recorded run had services, which this engine cannot start beside it")
	}
	job := place.Job(described)
	job.ID, job.ProjectName = "replay-services", "replay"
	started, err := starter.StartServices(ctx, job, func(line string) {
		if !r.quiet {
			fmt.Fprintln(r.app.stderr, line)
		}
	})
	if err != nil {
		places.close()
		return nil, placeError(ctx, err)
	}
	return func() {
		if err := place.End(ctx, started.Close); err != nil {
			fmt.Fprintf(r.app.stderr, "warning: the services are not removed: %v\n", err)
		}
		places.close()
	}, nil
}
