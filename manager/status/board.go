// Package status is what an operator sees of a manager: metrics, health, a list of jobs, and a page with their logs and traces.
//
//	manager.Manager ──Observer──> Board ──> /metrics, /health, /debug/jobs/list    for anybody who reaches the address
//	       └────────State───────────┘└────> /, /jobs/ID, /status                   with a key, or on the manager's own socket
//
// Nothing here holds a secret of a job: logs are those that GitLab gets, and traces are masked as well.
package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rungci/rung/manager"
)

const (
	// MaxTail is how much of the end of a job's log is kept, in bytes.
	MaxTail = 16 << 10
	// MaxEnded is how many jobs are kept that have ended.
	MaxEnded = 100
)

// Source is the manager that a Board shows.
type Source interface{ State() manager.State }

// known is a job; two GitLabs may have the same number.
type known struct {
	manager.Entry
	job int64
}

func keyOf(j manager.Running) known { return known{j.Entry, j.Job} }

// Options are those of a Board.
type Options struct {
	Version, Revision string
	// Key opens the pages with logs and traces; empty shows them to nobody but Private.
	Key string
}

// Board is a manager.Observer that remembers what operators ask for. It is safe for concurrent use.
type Board struct {
	o       Options
	started time.Time
	metrics metrics

	mu      sync.Mutex
	source  Source
	refused *Refused
	waiting *Waiting
	tails   map[known]*tail
	ended   []Job // the newest last
}

// Job is one that runs or has ended.
type Job struct {
	manager.Running
	End *manager.End `json:"end,omitempty"` // nil while it runs
	// Finished is when it ended.
	Finished time.Time `json:"finished,omitzero"`

	log []byte // its end, of one that has ended
}

// New makes a Board.
func New(o Options) *Board {
	return &Board{o: o, started: time.Now(), metrics: newMetrics(), tails: map[known]*tail{}}
}

// Show says which manager is shown.
func (b *Board) Show(s Source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.source = s
}

// Loaded is told of a configuration that was read, or could not be, and is shown until one can be used.
func (b *Board) Loaded(err error) {
	b.metrics.loaded(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = nil
	if err != nil {
		b.refused = &Refused{Error: err.Error(), Since: time.Now()}
	}
}

// Wait is told for what this manager waits before it begins; nil: it does not wait any more.
func (b *Board) Wait(w *Waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = w
}

func (b *Board) waits() *Waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

func (b *Board) refusal() *Refused {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// state is how the manager is; empty before there is one.
func (b *Board) state() manager.State {
	b.mu.Lock()
	source := b.source
	b.mu.Unlock()
	if source == nil {
		return manager.State{}
	}
	return source.State()
}

// Began implements manager.Observer.
func (b *Board) Began(job manager.Running, waited manager.Waited) {
	b.metrics.began(job, waited)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tails[keyOf(job)] = &tail{}
}

// Wrote implements manager.Observer.
func (b *Board) Wrote(job manager.Running, log []byte) {
	b.mu.Lock()
	t := b.tails[keyOf(job)]
	b.mu.Unlock()
	if t != nil {
		t.add(log)
	}
}

// Ended implements manager.Observer.
func (b *Board) Ended(job manager.Running, end manager.End) {
	b.metrics.finished(job, end)
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.tails[keyOf(job)].bytes()
	delete(b.tails, keyOf(job))
	b.ended = append(b.ended, Job{Running: job, End: &end, Finished: time.Now(), log: log})
	if extra := len(b.ended) - MaxEnded; extra > 0 {
		clear(b.ended[:extra])
		b.ended = b.ended[extra:]
	}
}

// Jobs are those that run, the newest first, and then those that have ended, the last one first.
func (b *Board) Jobs() []Job { return b.jobs(b.state()) }

func (b *Board) jobs(s manager.State) []Job {
	var out []Job
	for i := len(s.Jobs) - 1; i >= 0; i-- {
		out = append(out, Job{Running: s.Jobs[i]})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.ended) - 1; i >= 0; i-- {
		out = append(out, b.ended[i])
	}
	return out
}

// log is the end of a job's log: of one that was adopted, what came since.
func (b *Board) log(j Job) []byte {
	if j.End != nil {
		return j.log
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tails[keyOf(j.Running)].bytes()
}

// tail is the end of a log.
type tail struct {
	mu  sync.Mutex
	buf []byte // up to twice MaxTail
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > MaxTail {
		p = p[len(p)-MaxTail:]
	}
	if t.buf = append(t.buf, p...); len(t.buf) > 2*MaxTail {
		t.buf = t.buf[:copy(t.buf, t.buf[len(t.buf)-MaxTail:])]
	}
}

// bytes is a copy of the end of the log.
func (t *tail) bytes() []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.buf[max(0, len(t.buf)-MaxTail):]...)
}

// Count returns a handler that counts what next is given, by level.
func (b *Board) Count(next slog.Handler) slog.Handler { return &counter{next, b} }

type counter struct {
	slog.Handler
	board *Board
}

// Handle implements slog.Handler.
func (c *counter) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case r.Level >= slog.LevelError:
		c.board.metrics.logged("error")
	case r.Level >= slog.LevelWarn:
		c.board.metrics.logged("warning")
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c *counter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &counter{c.Handler.WithAttrs(attrs), c.board}
}

// WithGroup implements slog.Handler.
func (c *counter) WithGroup(name string) slog.Handler {
	return &counter{c.Handler.WithGroup(name), c.board}
}
