package joblog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rungci/rung/manager/gitlab"
)

// Defaults of SenderOptions.
const (
	// DefaultFirst is soon, for whoever watches the start of a job; a job that takes less time sends its log once, at its end.
	DefaultFirst    = 200 * time.Millisecond
	DefaultInterval = 3 * time.Second
	DefaultTouch    = 30 * time.Second
	DefaultPart     = 1 << 20
	DefaultAttempts = 10
	DefaultBackoff  = time.Second

	maxBackoff = time.Hour
	stopGrace  = 5 * time.Second
	// maxResends bounds how often GitLab can ask for the whole log again.
	maxResends = 3
)

// SenderOptions are those of a Sender. Zero values are the defaults.
type SenderOptions struct {
	First    time.Duration // until the first part is sent
	Interval time.Duration // between parts, until GitLab asks for another one
	Touch    time.Duration // the longest silence, so that GitLab knows that the job runs, and we whether it was cancelled
	Part     int64         // the most bytes of one part
	Attempts int           // of the final update, each of which may repeat its request
	Backoff  time.Duration // after the first attempt of it; doubles
	Pending  bool          // GitLab has not taken yet that the job runs: it hears that before anything else
	Debug    bool          // the log shows what it should not show to everybody (CI_DEBUG_TRACE)
	// Cancelled is called once, when somebody cancels the job: its script ends and its after_script runs.
	Cancelled func()
	// Gone is called once, with why, when GitLab has given up the job: everything of it ends.
	Gone func(error)
	// Note is told of what went wrong and is tried again; may be nil.
	Note func(error)
}

// Sender brings the log and the state of one job to GitLab.
type Sender struct {
	api  *gitlab.Client
	job  gitlab.Ref
	log  *File
	opts SenderOptions

	cancel  context.CancelFunc // of what run is sending
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once // closes stop

	// The following belong to the goroutine of run, and then to Finish.
	pending  bool  // GitLab takes nothing before it has heard that the job runs
	sent     int64 // how much of the log GitLab has
	backward int   // how often it had less than before
	interval time.Duration
	told     bool // Cancelled was called
	gone     error
}

// Send starts to send the log of a job. It goes on until Finish, until GitLab gives up the job, or until ctx ends.
func Send(ctx context.Context, api *gitlab.Client, job gitlab.Ref, log *File, o SenderOptions) *Sender {
	set(&o.First, DefaultFirst)
	set(&o.Interval, DefaultInterval)
	set(&o.Touch, DefaultTouch)
	set(&o.Part, DefaultPart)
	set(&o.Attempts, DefaultAttempts)
	set(&o.Backoff, DefaultBackoff)
	if o.Note == nil {
		o.Note = func(error) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Sender{cancel: cancel, api: api, job: job, log: log, opts: o, stop: make(chan struct{}), stopped: make(chan struct{}), interval: o.Interval, pending: o.Pending, sent: log.begins()}
	go s.run(ctx)
	return s
}

func set[T int | int64 | time.Duration](option *T, value T) {
	if *option <= 0 {
		*option = value
	}
}

// run sends parts and signs of life.
func (s *Sender) run(ctx context.Context) {
	defer close(s.stopped)
	defer s.cancel()
	next := time.NewTimer(s.opts.First)
	defer next.Stop()
	quietSince := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stop:
			return
		case <-next.C:
		}
		before := s.sent
		spoke := s.pending // which says that the job runs
		err := s.acknowledge(ctx)
		if err == nil {
			var sent bool
			sent, err = s.part(ctx)
			spoke = spoke || sent
		}
		if !spoke && err == nil && time.Since(quietSince) >= s.opts.Touch {
			spoke, err = true, s.touch(ctx)
		}
		if spoke {
			quietSince = time.Now()
		}
		if errors.Is(err, gitlab.ErrJobGone) {
			s.gone = err
			if s.opts.Gone != nil {
				s.opts.Gone(err)
			}
			return
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errBeyond) { // the log of a job that came back to this host may not be shown to its end again: Finish knows
			s.opts.Note(err)
		}
		wait := min(s.interval, s.opts.Touch)
		if s.pending {
			wait = min(wait, s.opts.Backoff) // GitLab gives the job to another runner otherwise
		}
		if s.sent > before && s.log.Size()-s.sent >= s.opts.Part {
			wait = 0 // GitLab is behind: a log of many megabytes would not arrive in time otherwise
		}
		next.Reset(wait)
	}
}

// errBeyond says that GitLab has more of the log than there is here, as after a loss of power. No part of it can be added there any more.
var errBeyond = errors.New("the log that GitLab has is longer than the one here, which has lost its end")

// part sends the next part of the log. It reports whether there was one.
func (s *Sender) part(ctx context.Context) (bool, error) {
	part := s.log.part(s.sent, s.opts.Part)
	if part.Size() == 0 {
		return false, nil
	}
	size, reply, err := s.api.PatchTrace(ctx, s.job, s.sent, part, s.opts.Debug)
	var offset *gitlab.ErrOffset
	if errors.As(err, &offset) {
		switch size := s.log.Size(); {
		case offset.Size > size:
			return true, fmt.Errorf("GitLab has %d bytes, and %d are here: %w", offset.Size, size, errBeyond)
		case offset.Size == s.sent:
			return true, fmt.Errorf("GitLab refuses byte %d of the log, and says that it has %d of %d bytes", s.sent, offset.Size, s.log.Size())
		}
		if offset.Size < s.sent {
			if s.backward++; s.backward > maxResends {
				return true, fmt.Errorf("GitLab has lost parts of the log %d times", s.backward)
			}
		}
		s.sent = offset.Size
		return true, nil
	}
	if err != nil {
		s.pending = s.pending || errors.Is(err, gitlab.ErrPending)
		return true, err
	}
	if size <= s.sent || size > s.log.Size() {
		return true, fmt.Errorf("GitLab took a part of the log from byte %d on, and says that it has %d of %d bytes", s.sent, size, s.log.Size())
	}
	s.sent = size
	s.heard(reply)
	return true, nil
}

// acknowledge tells GitLab that the job runs if it has not taken that yet.
func (s *Sender) acknowledge(ctx context.Context) error {
	if !s.pending {
		return nil
	}
	if err := s.touch(ctx); err != nil {
		return fmt.Errorf("telling GitLab that the job runs: %w", err)
	}
	s.pending = false
	return nil
}

// touch tells GitLab that the job runs.
func (s *Sender) touch(ctx context.Context) error {
	reply, err := s.api.UpdateJob(ctx, s.job, gitlab.Update{State: gitlab.Running})
	if err != nil {
		return err
	}
	s.heard(reply)
	return nil
}

// heard takes in what GitLab says beside its answer.
func (s *Sender) heard(r *gitlab.Reply) {
	if r.Interval > 0 {
		s.interval = r.Interval
	}
	if r.Cancelled() && !s.told {
		s.told = true
		if s.opts.Cancelled != nil {
			s.opts.Cancelled()
		}
	}
}

// Finish sends the rest of the log and then the final state. The error is gitlab.ErrJobGone where GitLab had ended the job by itself,
// and otherwise what the last attempt came to. The log must be complete. Output of final is filled in, unless GitLab has more than this log.
func (s *Sender) Finish(ctx context.Context, final gitlab.Update) error {
	ended := context.AfterFunc(ctx, s.cancel)
	defer ended()
	s.Stop()
	if s.gone != nil {
		return s.gone
	}
	var err error
	if final.Output, err = s.log.output(); err != nil {
		return err
	}
	resends, pause := 0, s.opts.Backoff
	for attempt := 1; ; {
		before := s.sent
		err := s.acknowledge(ctx)
		if err == nil {
			err = s.rest(ctx)
		}
		if s.sent > before {
			attempt, pause = 1, s.opts.Backoff // attempts count without progress
		}
		if errors.Is(err, errBeyond) { // the log stays as GitLab has it, and the job ends all the same
			if final.Output != (gitlab.Output{}) {
				s.opts.Note(fmt.Errorf("the end of the job is reported without that of its log: %w", err))
			}
			final.Output, err = gitlab.Output{}, nil
		}
		var reply *gitlab.Reply
		if err == nil {
			reply, err = s.api.UpdateJob(ctx, s.job, final)
			s.pending = errors.Is(err, gitlab.ErrPending)
		}
		wait := pause
		switch {
		case errors.Is(err, gitlab.ErrJobGone), err != nil && ctx.Err() != nil:
			return err
		case errors.Is(err, gitlab.ErrChecksum):
			if resends++; resends > maxResends {
				return err
			}
			if s.sent = s.log.begins(); s.sent > 0 {
				final.Output = gitlab.Output{} // the log stays as GitLab has it
			}
			continue
		case err != nil:
			if attempt++; attempt > s.opts.Attempts {
				return fmt.Errorf("gave up after %d attempts: %w", s.opts.Attempts, err)
			}
			s.opts.Note(err)
			pause = min(2*pause, maxBackoff)
		case !reply.Again:
			return nil
		default: // it takes the log in; it ends that by itself, after five minutes
			wait = max(reply.Interval, time.Second)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// rest sends all of the log that GitLab does not have.
func (s *Sender) rest(ctx context.Context) error {
	for s.sent < s.log.Size() {
		before := s.sent
		if _, err := s.part(ctx); err != nil {
			return err
		}
		if s.sent == before {
			return fmt.Errorf("GitLab takes no more than %d of %d bytes of the log", s.sent, s.log.Size())
		}
	}
	return nil
}

// Stop ends the sending without a word to GitLab, for a job that another process goes on with.
func (s *Sender) Stop() {
	s.once.Do(func() { close(s.stop) })
	// What GitLab has of a part that is broken off it says with the next one.
	slow := time.AfterFunc(stopGrace, s.cancel)
	defer slow.Stop()
	<-s.stopped
}
