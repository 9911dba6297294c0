package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/supply"
)

// ErrEnded says that a configuration came too late to be used by this process.
var ErrEnded = errors.New("the manager has ended; the next one uses it")

// Reload changes to another configuration. Jobs that run are not touched. The error is an ErrEnded once Run has ended.
func (m *Manager) Reload(ctx context.Context, c *config.Config) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrEnded
	}
	first := m.config == nil
	var entries []*entry
	var problems []error
	for i := range c.Runners {
		r := &c.Runners[i]
		e, err := m.entryOf(c, r, entries)
		if err != nil {
			problems = append(problems, fmt.Errorf("the runner %q: %w", r.Name, err))
			m.o.Log.Error("a runner of the configuration cannot be used", "runner", r.Name, "error", err)
			continue
		}
		entries = append(entries, e)
	}
	m.config, m.entries = c, entries
	m.read.Store(c)
	for _, e := range m.known {
		if !slices.Contains(entries, e) {
			e.end()
			e.feeds = nil
			m.dismiss(e)
		}
	}
	for _, e := range entries {
		m.start(ctx, e)
	}
	m.slots.resize(c.Concurrent)
	m.terminals.configure(c.SessionServer)
	switch {
	case len(entries) > 0:
	case first && !hasLeft(m):
		return errors.Join(append(problems, errors.New("the configuration has no runner whose jobs can be run here"))...)
	default:
		m.o.Log.Warn("no runner of the configuration can run jobs here now: no jobs are taken")
	}
	return nil
}

// entryOf is the entry of a runner: the one that it was in configurations before, as long as jobs of that run, or a new one. Those that are taken are
// of other runners. The lock is held.
func (m *Manager) entryOf(c *config.Config, r *config.Runner, taken []*entry) (*entry, error) {
	id := ""
	records, unknown := m.store.Runner(r.Token)
	if unknown == nil {
		id, r = records.ID(), current(m, records, r)
	}
	var found *entry
	for _, e := range m.known {
		was := e.settings()
		if e.gone || slices.Contains(taken, e) || was.URL != r.URL || was.Token != r.Token && e.records.ID() != id {
			continue
		}
		if found == nil || was.Name == r.Name {
			found = e
		}
	}
	switch {
	case found == nil && unknown != nil:
		return nil, &store.FolderError{Folder: m.o.State, Err: unknown}
	case found == nil:
		return m.newEntry(c, r, records)
	}
	if err := found.configure(c, r); err != nil {
		found.log.Error("the changed runner cannot be used; it stays as it was", "error", err)
	}
	if found.life.Err() != nil {
		found.life, found.end = context.WithCancel(m.asking)
	}
	return found, nil
}

// start lets an entry ask for jobs, as many at once as its configuration says, once the manager runs. The lock is held.
func (m *Manager) start(ctx context.Context, e *entry) {
	if !m.started {
		return
	}
	most := e.settings().RequestConcurrency
	for ; len(e.feeds) > most; e.feeds = e.feeds[:len(e.feeds)-1] {
		e.feeds[len(e.feeds)-1]()
	}
	for len(e.feeds) < most {
		asking, end := context.WithCancel(e.life)
		e.feeds = append(e.feeds, end)
		e.feeding++
		m.jobs.Go(func() {
			e.feed(ctx, asking)
			end()
			m.mu.Lock()
			defer m.mu.Unlock()
			e.feeding--
			m.dismiss(e)
		})
	}
}

// dismiss closes what an entry has that is in the configuration no more, after the last of its jobs. The lock is held.
func (m *Manager) dismiss(e *entry) {
	if slices.Contains(m.entries, e) || e.gone || e.feeding > 0 || len(e.held) > 0 {
		return
	}
	for r := range m.running {
		if r.entry == e {
			return
		}
	}
	e.gone = true
	m.levels.dismiss(e)
	m.aside.Go(func() {
		e.closeSupply(true)
		m.mu.Lock()
		defer m.mu.Unlock()
		e.nothing = e.supply == nil || !supply.Left(folderOf(e), m.o.Shared)
	})
}

// Wake lets entries ask for a job at once that rest because GitLab refused them or did not answer.
func (m *Manager) Wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		e.mu.Lock()
		e.wake()
		e.mu.Unlock()
	}
}

// configure changes to another configuration, or to the first one. An error leaves the entry as it is.
func (e *entry) configure(c *config.Config, r *config.Runner) error {
	levels, err := r.Levels()
	if err != nil {
		return err
	}
	api, tls, err := connect(e, c, r, levels.Default)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.runner
	e.api, e.tls, e.config, e.runner, e.levels = api, tls, c, r, levels
	if before == nil || !reflect.DeepEqual(before, r) {
		e.keepSettings(r)
	}
	if before == nil || !reflect.DeepEqual(before.Cache, r.Cache) { // else it keeps its credentials
		e.caches = openCaches(r.Cache, e.log)
	}
	if before == nil {
		return nil
	}
	if before.Token != r.Token {
		e.since = ""
	}
	if !reflect.DeepEqual(before, r) { // what GitLab thought of the one before does not matter
		e.wake()
	}
	e.changeSupply(r.Provider)
	e.fitness.doubt.Store(true)
	return nil
}

// wake forgets what has failed, and ends the rest of the entry. The caller holds its lock.
func (e *entry) wake() {
	e.unhealthy, e.resting, e.trouble = 0, time.Time{}, ""
	close(e.woken)
	e.woken = make(chan struct{})
}
