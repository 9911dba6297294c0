package manager

import (
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/store"
)

// Rotating changes to another token of an entry, which GitLab has issued and which is not in the configuration yet. It is used at once, as GitLab
// accepts no other, and whatever the configuration has until it has this one. When it returns without an error, neither the jobs that run nor the token
// are lost with this process.
func (m *Manager) Rotating(r *config.Runner, to config.Token) error {
	records, err := m.store.Runner(r.Token)
	if err != nil {
		return err
	}
	next := store.Next{Token: to.Token, Obtained: to.Obtained, Expires: to.Expires}
	err = records.Rotate(next)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.issued[records.ID()] = next
	for _, e := range m.entries {
		if e.records.ID() == records.ID() && e.settings().URL == r.URL {
			e.use(&next)
		}
	}
	return err
}

// Rotated is the token that GitLab has issued for an entry and that is not in the configuration yet, whichever process was told it; nil if there is none.
func (m *Manager) Rotated(r *config.Runner) (*config.Token, error) {
	records, err := m.store.Runner(r.Token)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := successor(m, records, r)
	if err != nil || next == nil {
		return nil, err
	}
	return &config.Token{Token: next.Token, Obtained: next.Obtained, Expires: next.Expires}, nil
}

// successor is the token that has followed the one in the configuration. The lock is held.
func successor(m *Manager, records *store.Runner, r *config.Runner) (*store.Next, error) {
	if known, is := m.issued[records.ID()]; is && known.Token != r.Token {
		return &known, nil
	}
	delete(m.issued, records.ID())
	if err := records.Settle(); err != nil {
		return nil, err
	}
	return records.Unfinished()
}

// current is a runner of the configuration with the token that GitLab accepts. The lock is held.
func current(m *Manager, records *store.Runner, r *config.Runner) *config.Runner {
	next, err := successor(m, records, r)
	switch {
	case err != nil:
		m.o.Log.Error("cannot tell whether GitLab has issued a new token for a runner", "runner", r.Name, "error", err)
		return r
	case next == nil:
		return r
	}
	return withToken(r, next)
}

func withToken(r *config.Runner, to *store.Next) *config.Runner {
	changed := *r
	changed.Token, changed.TokenObtainedAt, changed.TokenExpiresAt = to.Token, to.Obtained, to.Expires
	return &changed
}

// use changes to another token.
func (e *entry) use(to *store.Next) {
	e.mu.Lock()
	c, r := e.config, withToken(e.runner, to)
	e.mu.Unlock()
	if err := e.configure(c, r); err != nil {
		e.log.Error("the new token of the runner cannot be used", "error", err)
	}
}
