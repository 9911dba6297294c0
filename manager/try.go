package manager

import (
	"context"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/job"
)

// Try runs a job that somebody has in hand, for the first entry of the configuration, and takes the place of Run. The job goes the way of one that was asked for, so
// that all that the entry says holds for it. GitLab, which is told of its states and its log, is what Options.StandIn names.
//
// When ctx ends, the job is stopped, and the cause of ctx says why: an *event.Stop. Kill ends it at once. The error says why there is no place for the job.
func Try(ctx context.Context, m *Manager, from *gitlab.Job) (job.Ended, error) {
	defer m.store.Close()
	defer m.close()
	defer m.jobs.Wait()
	defer m.endAsk()
	if err := m.Reload(ctx, m.o.Config); err != nil {
		return job.Ended{}, err
	}
	e := m.entries[0]
	if err := e.look(ctx, ctx); err != nil {
		return job.Ended{}, err
	}
	m.sweep(ctx) // what those before it have left that were killed
	defer context.AfterFunc(ctx, func() { m.endWork(context.Cause(ctx)) })()
	m.mu.Lock()
	r := m.begin(e, from, 0)
	m.mu.Unlock()
	m.slots.occupy(e, r.slot)
	return m.run(ctx, r), nil
}

// tried reports whether the job is one of Try. Such a job finds nothing of earlier ones and leaves nothing for later ones: those are of GitLab.
func (r *run) tried() bool { return r.entry.manager.o.StandIn != "" }
