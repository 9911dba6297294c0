// Package service runs jobs for clients over gRPC: with the API of rung.runner.v1, and with that of the existing step-runner v0.11.
//
// A run is identified by an ID. It continues whether or not a client is connected; its log and events are spooled to disk, so
// that a client that reconnects resumes where it was, and memory does not grow with the output of steps. Runs share nothing:
// each has its own folders, source of components and masked secrets. A slow or stalled client never blocks a run.
//
// The package neither parses steps nor assembles an engine: Options provide both.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

// SourcesOf says for which run Options.Sources makes a source.
type SourcesOf struct {
	Folder    string     // where what is fetched is laid out: the run's own
	WorkDir   string     // of the run
	Lock      *lock.File // what the client says that references are locked to; nil is what the server finds
	ChecksOut bool       // a step of the run brings the project: what is in WorkDir before is not the job's
}

// Options configure a service. Parse, Engine and Sources are required.
type Options struct {
	// Parse compiles a job from text. Its errors are diag.Lists. name is what diagnostics call the text.
	Parse func(name string, text []byte) (*plan.Component, error)
	// Engine returns the engine options that all runs share. The variables of a request go over their Env.
	Engine func() engine.Options
	// Sources makes the source of one run's components. An error that is an *event.Error is how the run ends; any other is the server's own.
	Sources func(of SourcesOf) (source.Source, error)
	// RuntimeDigest returns the digest of the program for traces. It may be nil.
	RuntimeDigest func() string
	// Log receives messages for the operator of the server, one line each, without a line end. Nil discards them.
	Log    func(line string)
	Limits Limits
	// FollowOnly refuses new runs: clients may follow those that were adopted.
	FollowOnly bool
}

// Service manages runs. Its methods are safe for concurrent use.
type Service struct {
	opts    Options
	limits  Limits
	folder  string        // of all that is on disk; only this user may enter it
	stopped chan struct{} // closed by Close
	sweeper sync.WaitGroup
	metrics metrics
	count   atomic.Int64 // of all runs ever: it puts them in order, and names their files

	mu        sync.Mutex
	runs      map[string]*run   // by id; closed ones have none
	live      map[*run]struct{} // runs that have not ended, closed ones too
	idle      chan struct{}     // closed when live is empty; nil before the first run
	followers int
	closing   bool
}

// New creates a service. Close stops it and removes everything that it stored on disk.
func New(opts Options) (*Service, error) {
	if opts.Parse == nil || opts.Engine == nil || opts.Sources == nil {
		return nil, errors.New("a service needs a parser, an engine and sources")
	}
	if opts.Log == nil {
		opts.Log = func(string) {}
	}
	folder, err := tempfolder.Make("service-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for logs: %w", err)
	}
	s := &Service{
		opts: opts, limits: opts.Limits.withDefaults(), folder: folder,
		runs: map[string]*run{}, live: map[*run]struct{}{}, stopped: make(chan struct{}),
	}
	s.sweeper.Go(s.sweepNowAndThen)
	return s, nil
}

// start begins the run of a request, unless the same request has begun it already.
func (s *Service) start(req *request) (started bool, err error) {
	if again, err := s.known(req); again || err != nil {
		return false, err
	}
	if s.opts.FollowOnly {
		return false, failedPrecondition("this server lets clients follow one job and does not start jobs").hinted("run `step-runner serve` for a server that does")
	}
	if err := req.compile(s.opts.Parse); err != nil {
		return false, err
	}
	if err := req.prepare(&s.limits); err != nil {
		return false, err
	}
	r := s.newRun(req)
	r.control = &engine.Control{}
	if err := r.fits(req); err != nil {
		r.discard()
		return false, err
	}
	if again, err := s.register(r, req); again || err != nil {
		r.discard()
		return false, err
	}
	go r.execute(req)
	return true, nil
}

// known reports whether the request's run is there already. A run of another request with the same id is an error.
func (s *Service) known(req *request) (bool, error) {
	s.mu.Lock()
	r := s.runs[req.id]
	s.mu.Unlock()
	if r == nil {
		return false, nil
	}
	return true, r.same(req)
}

// register gives the run its id and a place among the active ones.
func (s *Service) register(r *run, req *request) (again bool, err error) {
	s.mu.Lock()
	if other := s.runs[r.id]; other != nil {
		s.mu.Unlock()
		return true, other.same(req)
	}
	switch {
	case s.closing:
		err = unavailable("the server is shutting down and accepts no more runs")
	case len(s.live) >= s.limits.Runs:
		s.metrics.reached[limitRuns].Add(1)
		err = exhausted("%d runs are active, the limit of this server", len(s.live)).hinted("try again when one has ended")
	default:
		s.metrics.started.Add(1)
		s.admit(r)
	}
	s.mu.Unlock()
	return false, err
}

// admit puts the run into the table. The caller holds the lock.
func (s *Service) admit(r *run) {
	s.runs[r.id] = r
	if len(s.live) == 0 {
		s.idle = make(chan struct{})
	}
	s.live[r] = struct{}{}
}

// newRun makes a run, but does not start it.
func (s *Service) newRun(req *request) *run {
	number := s.count.Add(1)
	path := filepath.Join(s.folder, strconv.FormatInt(number, 10))
	r := &run{
		service: s, id: req.id, number: number, digest: req.digest, timeout: req.timeout, grace: req.grace,
		log: newSpool(path+".log", s.limits.LogBytes), events: newSpool(path+".events", 0),
		kill: make(chan struct{}), ended: make(chan struct{}), removed: make(chan struct{}),
		started: time.Now(), heard: time.Now(),
	}
	if req.logFile != nil {
		r.log = newSpoolIn(req.logFile, path+".log", s.limits.LogBytes)
	}
	r.state.status = running
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// find returns the run with the id, and takes note that its client was heard of.
func (s *Service) find(id string) (*run, error) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r == nil {
		return nil, notFound("no job with id %q", id).hinted("it was closed, it has expired, or the server was restarted")
	}
	r.touch()
	return r, nil
}

// all returns every run, in the order in which they were started.
func (s *Service) all() []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*run, 0, len(s.runs))
	for _, r := range s.runs {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *run) int { return cmp.Compare(a.number, b.number) })
	return out
}

// close stops a run, waits for its end until ctx is done, and removes it. The id is free at once; until the run has ended, closing
// the id again finds it all the same. A run that was adopted is its owner's to end; clients only follow it.
func (s *Service) close(ctx context.Context, id string, force bool) error {
	for _, r := range s.toClose(id) {
		r.stop(&event.Stop{Code: event.CodeCancelledByClient, Reason: "closed by the client"}, force)
		r.remove()
		select {
		case <-r.removed:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
	return nil
}

// toClose takes the id from the run that has it. It returns that run or, where there is none, those that had it and have not
// ended.
func (s *Service) toClose(id string) []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		if r.adopted {
			return nil
		}
		delete(s.runs, id)
		return []*run{r}
	}
	var closed []*run
	for r := range s.live {
		if r.id == id {
			closed = append(closed, r)
		}
	}
	return closed
}

// departed takes note that a run has ended and that its folders are gone.
func (s *Service) departed(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, r)
	if len(s.live) == 0 {
		close(s.idle)
	}
}

// follow counts a stream. The function it returns ends it.
func (s *Service) follow(r *run) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers >= s.limits.Followers {
		s.metrics.reached[limitFollowers].Add(1)
		return nil, exhausted("%d clients follow runs, the limit of this server", s.followers).hinted("try again when one has ended")
	}
	s.followers++
	r.streams.Add(1)
	return func() {
		r.streams.Add(-1)
		r.touch()
		s.mu.Lock()
		s.followers--
		s.mu.Unlock()
	}, nil
}

// Active returns the number of runs that have not ended.
func (s *Service) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Stop refuses new runs, stops the active ones, and waits for their end. When ctx is done, they are killed. Followers get
// the rest of every log; Close removes it.
func (s *Service) Stop(ctx context.Context) {
	s.mu.Lock()
	s.closing = true
	live, idle := slices.Collect(maps.Keys(s.live)), s.idle
	s.mu.Unlock()
	if len(live) == 0 {
		return
	}
	for _, r := range live {
		r.stop(errServerEnds, false)
	}
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	for _, r := range live {
		r.stop(errServerEnds, true)
	}
	select {
	case <-idle:
	case <-time.After(killWait):
	}
}

// errServerEnds is why runs are stopped when their server ends.
var errServerEnds = &event.Stop{Code: event.CodeTerminated, Reason: "the server is shutting down"}

// Settled waits until clients have closed every run, at most until ctx is done.
func (s *Service) Settled(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		left := len(s.runs)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close kills the active runs and removes everything that the service stored on disk. Call Stop first to end runs gracefully.
func (s *Service) Close() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	s.Stop(now)
	s.mu.Lock()
	left := s.runs
	s.runs = map[string]*run{}
	select {
	case <-s.stopped:
		s.mu.Unlock()
		return
	default:
		close(s.stopped)
	}
	s.mu.Unlock()
	s.sweeper.Wait()
	for _, r := range left {
		r.remove()
		select {
		case <-r.removed:
		case <-time.After(killWait): // it does not die; what it leaves cannot be helped
		}
	}
	tempfolder.Remove(s.folder)
}
