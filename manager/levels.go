package manager

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
)

// level is a level of isolation of an entry that is open, for as long as the entry says the same of it. When that changes, jobs that run stay in the
// level that they began in, and it is closed after the last of them.
type level struct {
	once     sync.Once
	open     atomic.Bool // once the following is there, without an error
	executor executor.Executor
	err      error
	place    string // the machine, as placeOf has it

	// The lock of levels is held.
	made string // what the entry says of it
	jobs int    // that are in it, or about to be
}

// madeOf is what an entry says of the places of its jobs.
func madeOf(r *config.Runner) string {
	text, _ := json.Marshal([]any{r.Executor, r.BuildsDir, r.CacheDir, r.Shell, r.Docker, r.Kubernetes, r.SSH, r.Custom, r.Plugin}) // what came from TOML can be written
	return string(text)
}

// levels are the levels of all entries that are open. Their methods are safe for concurrent use.
type levels struct {
	make func(context.Context, *config.Runner, executor.Level) (executor.Executor, error)
	log  *slog.Logger
	// closing is what nobody waits for but the end of the manager.
	closing sync.WaitGroup

	mu     sync.Mutex
	newest map[levelKey]*level // of each kind
	old    map[*level]bool     // those whose configuration has changed since, and whose jobs run
}

func newLevels(log *slog.Logger, open func(context.Context, *config.Runner, executor.Level) (executor.Executor, error)) *levels {
	return &levels{make: open, log: log, newest: map[levelKey]*level{}, old: map[*level]bool{}}
}

// open opens a level for an entry, once. Whatever a plugin calls its level, it is the same one. The caller gives the level back with leave, also
// with an error.
func (s *levels) open(ctx context.Context, e *entry, of executor.Level) (*level, error) {
	settings := e.settings()
	of = opening(settings, of)
	key, made := levelKey{e, of}, madeOf(settings)
	s.mu.Lock()
	l := s.newest[key]
	if l == nil || l.made != made {
		s.retire(l)
		l = &level{made: made, place: placeOf(settings)}
		s.newest[key] = l
	}
	l.jobs++
	s.mu.Unlock()
	l.once.Do(func() {
		l.executor, l.err = s.make(ctx, settings, of)
		l.open.Store(l.err == nil)
	})
	if l.err != nil {
		s.mu.Lock()
		if s.newest[key] == l {
			delete(s.newest, key) // the next job tries again: an engine may have been started
		}
		s.mu.Unlock()
	}
	return l, l.err
}

// opened is a level of an entry, if it is open; nil otherwise.
func (s *levels) opened(e *entry, of executor.Level) executor.Executor {
	settings := e.settings()
	key := levelKey{e, opening(settings, of)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.newest[key]; l != nil && l.open.Load() {
		return l.executor
	}
	return nil
}

// levelKey names a level of an entry.
type levelKey struct {
	entry *entry
	level executor.Level
}

// opening is the level by the name under which it is opened: that of a plugin is whatever the plugin says.
func opening(settings *config.Runner, of executor.Level) executor.Level {
	if settings.Executor == config.PluginExecutor && !of.Known() {
		return config.PluginLevel
	}
	return of
}

// retire ends the use of a level by new jobs; nil is none. The caller holds the lock.
func (s *levels) retire(l *level) {
	if l == nil {
		return
	}
	s.old[l] = true
	if l.jobs == 0 {
		delete(s.old, l)
		s.closing.Go(func() { s.close(l) })
	}
}

// dismiss ends the use of the levels of an entry.
func (s *levels) dismiss(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.newest {
		if key.entry == e {
			delete(s.newest, key)
			s.retire(l)
		}
	}
}

// hold keeps a level that the caller has, until one more leave.
func (s *levels) hold(l *level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.jobs++
}

// leave gives a level back; nil is none.
func (s *levels) leave(l *level) {
	if l == nil {
		return
	}
	s.mu.Lock()
	l.jobs--
	last := l.jobs == 0 && s.old[l]
	if last {
		delete(s.old, l)
	}
	s.mu.Unlock()
	if last {
		s.close(l)
	}
}

// all are those that are open.
func (s *levels) all() []*level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(slices.Collect(maps.Values(s.newest)), slices.Collect(maps.Keys(s.old))...)
}

func (s *levels) close(l *level) {
	if !l.open.Load() {
		return
	}
	if err := l.executor.Close(); err != nil {
		s.log.Warn("cannot close an isolation level", "error", err)
	}
}
