package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/manager/terminal"
)

// heldEvery is how often GitLab hears that a job still waits here. It hands a job out again that it has not heard of for some minutes.
var heldEvery = 20 * time.Second

// GitLab hands jobs out, and cannot be told to keep those of one project. A job beyond max_jobs_per_project is therefore held: it has no slot, so that
// jobs of other projects run meanwhile, and it is not said to run, so that its time has not begun and GitLab hands it out again if this process ends. As many
// jobs are held as there are slots; after that the entry asks for no more.

// admit puts a job into a slot if its project has not as many as may run and none that waits for longer; nil otherwise.
func (e *entry) admit(from *gitlab.Job, slot int) *run {
	m := e.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if !e.room(from) {
		return nil
	}
	return m.begin(e, from, slot)
}

// room reports whether a job may begin. The caller holds the lock.
func (e *entry) room(from *gitlab.Job) bool {
	most := e.settings().Policy.MaxJobsPerProject
	if most <= 0 {
		return true
	}
	for other := range e.manager.running {
		if other.entry == e && other.from.Info.ProjectID == from.Info.ProjectID {
			most--
		}
	}
	for _, other := range e.held {
		if other == from {
			break
		}
		if other.Info.ProjectID == from.Info.ProjectID {
			return false
		}
	}
	return most > 0
}

// hold waits until a job may begin, and runs it.
func (e *entry) hold(ctx context.Context, from *gitlab.Job, t *terminal.Session) {
	e.log.Info("a job waits: its project has reached its limit (runners.policy.max_jobs_per_project)", "job", from.ID, "project", from.Info.ProjectID)
	r := e.turn(ctx, from)
	e.letGo(from)
	if r == nil {
		t.Close()
		return
	}
	r.terminal = t
	e.manager.run(ctx, r)
}

// turn waits until a job may begin, and puts it into a slot. It returns nil when the entry has ended, or GitLab has given the job up.
func (e *entry) turn(ctx context.Context, from *gitlab.Job) *run {
	m := e.manager
	m.mu.Lock()
	life := e.life
	m.mu.Unlock()
	for beat := time.Now().Add(heldEvery); life.Err() == nil; {
		m.mu.Lock()
		room, freed := e.room(from), m.freed
		m.mu.Unlock()
		waiting, end := context.WithDeadline(life, beat)                   // other jobs end meanwhile, and GitLab has to hear of this one all the same
		if room && (space{m}).roomFor(waiting, e) && e.fit(ctx, waiting) { // else it waits for that, too
			slot, err := m.slots.take(waiting, e)
			if err == nil {
				if r := e.begin(life, from, slot); r != nil {
					end()
					return r
				}
				m.slots.leave(e, slot)
			}
		}
		select {
		case <-freed:
		case <-waiting.Done():
		}
		end()
		if time.Now().Before(beat) {
			continue
		}
		beat = time.Now().Add(heldEvery)
		if _, err := e.client().UpdateJob(life, gitlab.Ref{ID: from.ID, Token: from.Token}, gitlab.Update{State: gitlab.Pending}); errors.Is(err, gitlab.ErrJobGone) {
			return nil
		}
	}
	return nil
}

// begin puts a job that was held into a slot, with a machine of its own where the entry's jobs have those; nil is not now.
func (e *entry) begin(life context.Context, from *gitlab.Job, slot int) *run {
	key, reserved := e.supply.Reserve(life)
	if !reserved {
		return nil
	}
	r := e.admit(from, slot)
	if r == nil {
		e.supply.Release(key, "")
		return nil
	}
	if e.supply != nil {
		r.reserved = &supply.Reservation{Key: key}
	}
	return r
}

// has reports whether the runner of an entry holds or runs a job already. GitLab hands one out again that it has not heard of for some minutes: a second copy would
// run beside the first, and share its record.
func has(e *entry, from *gitlab.Job) bool {
	e.manager.mu.Lock()
	defer e.manager.mu.Unlock()
	for other := range e.manager.running {
		if other.from.ID == from.ID && other.entry.records.ID() == e.records.ID() { // the entry may be one of an earlier configuration
			return true
		}
	}
	return slices.ContainsFunc(e.held, func(other *gitlab.Job) bool { return other.ID == from.ID })
}

// keepWaiting adds a job to those that are held.
func (e *entry) keepWaiting(from *gitlab.Job) {
	e.manager.mu.Lock()
	defer e.manager.mu.Unlock()
	e.held = append(e.held, from)
}

// letGo ends the waiting of a job.
func (e *entry) letGo(from *gitlab.Job) {
	m := e.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	e.held = slices.DeleteFunc(e.held, func(other *gitlab.Job) bool { return other == from })
	m.free()
	m.dismiss(e)
}

// free wakes those who wait for the end of a job. The caller holds the lock.
func (m *Manager) free() {
	close(m.freed)
	m.freed = make(chan struct{})
}

// holdsEnough waits while the entry holds as many jobs as it may. It returns false when life has ended.
func (e *entry) holdsEnough(life context.Context) bool {
	m := e.manager
	for {
		m.mu.Lock()
		enough, freed := len(e.held) > 0 && len(e.held) >= m.config.Concurrent, m.freed
		m.mu.Unlock()
		if !enough {
			return true
		}
		select {
		case <-freed:
		case <-life.Done():
			return false
		}
	}
}
