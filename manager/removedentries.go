package manager

import (
	"encoding/json"

	"github.com/rungci/rung/manager/config"
)

// keepSettings keeps what an entry is, for a process that finds its jobs and not the entry. A failure is only told.
func (e *entry) keepSettings(r *config.Runner) {
	text, err := json.Marshal(r) // what came from TOML can be written
	if err == nil {
		err = e.records.KeepSettings(text)
	}
	if err != nil {
		e.log.Warn("cannot save the runner's record: if you remove the runner from the configuration while its jobs run and rung is stopped, those jobs are lost", "error", err)
	}
}

// hasLeft reports whether there are jobs of the process before that this one can go on with. It is for a configuration without entries.
func hasLeft(m *Manager) bool {
	left, _ := m.store.Left(func(string) bool { return false }, hasMachines(m))
	return len(left) > 0
}

// left makes entries of those that have been taken from the configuration since the process before had it, and whose jobs run. They ask for no jobs,
// and are gone with their last one, as if they were taken from it now.
func left(m *Manager) []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.store.Left(func(id string) bool {
		for _, e := range m.known {
			if e.records.ID() == id {
				return true
			}
		}
		return false
	}, hasMachines(m))
	if err != nil {
		m.o.Log.Error("jobs of runners that are not in the configuration any more are lost; GitLab fails them when it has not heard of them for an hour", "error", err)
	}
	var out []*entry
	for _, records := range found {
		var r config.Runner
		text, err := records.Settings()
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		var e *entry
		if err == nil {
			e, err = m.newEntry(m.config, &r, records)
		}
		if err != nil {
			m.o.Log.Error("jobs of a runner that is not in the configuration any more are lost", "runner", r.Name, "error", err)
			continue
		}
		e.end()
		e.log.Info("the runner is not in the configuration any more: its jobs are finished, and it asks for no more")
		out = append(out, e)
	}
	return out
}
