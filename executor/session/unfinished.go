package session

import (
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
)

// Unfinished knows what of a run has not ended, and can say the end that its environment did not live to say. It is an event.Sink: it has to
// hear all events of the run. The zero value is ready to use.
type Unfinished struct {
	began, at time.Time
	seq       int64
	open      []*openStep // in the order in which they began: the ones around a step come before it
	leaves    map[string]leafEnd
	ended     bool
}

// openStep is a step that has begun and not ended.
type openStep struct {
	path      string
	began     time.Time
	attempt   int // of the process that is running; 0 is none
	logged    int64
	leaf, own bool // own: it is the run's own process, which has no events of a step
}

// leafEnd is how a step that is no list ended.
type leafEnd struct {
	status  event.Status
	allowed bool
}

// Event implements event.Sink.
func (u *Unfinished) Event(e event.Event) {
	u.seq, u.at = e.Seq, e.Time
	switch b := e.Body.(type) {
	case event.RunStarted:
		*u = Unfinished{began: e.Time, at: e.Time, seq: e.Seq, leaves: map[string]leafEnd{}}
	case event.StepStarted:
		u.again(e.Step)
		u.open = append(u.open, &openStep{path: e.Step, began: e.Time, leaf: b.Kind != event.KindSteps && b.Kind != event.KindParallel})
	case event.StepSkipped:
		u.again(e.Step)
		u.leaves[e.Step] = leafEnd{status: event.Skipped}
	case event.ExecStarted:
		u.process(e.Step, e.Time).attempt = b.Attempt
	case event.ExecFinished:
		u.process(e.Step, e.Time).attempt = 0
	case event.Log:
		if s := u.find(e.Step); s != nil {
			s.logged += int64(len(b.Data))
		}
	case event.StepFinished:
		if s := u.find(e.Step); s != nil && s.leaf {
			u.leaves[e.Step] = leafEnd{b.Status, b.Allowed}
		}
		u.open = slices.DeleteFunc(u.open, func(s *openStep) bool { return s.path == e.Step })
	case event.RunFinished:
		switch b.Status {
		case event.Success, event.Failure, event.Cancelled:
			u.ended = true // any other status is no result
		}
	}
}

// again takes in that a step begins. One that began before, in a list that is tried again, counts as it ends this time.
func (u *Unfinished) again(path string) {
	for old := range u.leaves {
		if old == path || strings.HasPrefix(old, path+".") {
			delete(u.leaves, old)
		}
	}
	u.open = slices.DeleteFunc(u.open, func(s *openStep) bool { return s.path == path })
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		if around := u.find(path[:i]); around != nil {
			around.leaf = false
		}
	}
}

// process returns the step that a process is of.
func (u *Unfinished) process(path string, at time.Time) *openStep {
	s := u.find(path)
	if s == nil {
		s = &openStep{path: path, began: at, leaf: true, own: true}
		u.open = append(u.open, s)
	}
	return s
}

func (u *Unfinished) find(path string) *openStep {
	for _, s := range u.open {
		if s.path == path {
			return s
		}
	}
	return nil
}

// Begun reports whether the run has begun and nobody has said how it ended.
func (u *Unfinished) Begun() bool { return !u.began.IsZero() && !u.ended }

// Ends returns the events that end the run as the last of them says: what is running ends with its status and error. Of a run that has not
// begun, or has ended, there are none. What end leaves out, its duration and its counts, is what is known of the run.
func (u *Unfinished) Ends(end event.RunFinished) []event.Event {
	if !u.Begun() {
		return nil
	}
	now := time.Now().UTC()
	if now.Before(u.at) { // the clock of an environment is its own
		now = u.at
	}
	var out []event.Event
	say := func(step string, body event.Body) {
		u.seq++
		out = append(out, event.Event{Seq: u.seq, Time: now, Step: step, Body: body})
	}
	for _, s := range slices.Backward(u.open) {
		if s.attempt > 0 {
			say(s.path, event.ExecFinished{Attempt: s.attempt, ExitCode: -1})
		}
		if s.leaf {
			u.leaves[s.path] = leafEnd{status: end.Status}
		}
		if !s.own {
			say(s.path, event.StepFinished{Status: end.Status, Error: end.Error, Duration: now.Sub(s.began), LogBytes: s.logged})
		}
	}
	if end.Duration == 0 {
		end.Duration = now.Sub(u.began)
	}
	if end.Counts == (event.Counts{}) {
		end.Counts = u.counts()
	}
	say("", end)
	u.open, u.ended = nil, true
	return out
}

func (u *Unfinished) counts() (c event.Counts) {
	for _, o := range u.leaves {
		switch {
		case o.status == event.Success:
			c.Success++
		case o.status == event.Skipped:
			c.Skipped++
		case o.status == event.Cancelled:
			c.Cancelled++
		case o.allowed:
			c.Allowed++
		default:
			c.Failure++
		}
	}
	return c
}

// EndOf is the end of a run that err ended, which the run itself does not say.
func EndOf(err *event.Error) event.RunFinished {
	end := event.RunFinished{Status: event.Failure, Error: err}
	if err.Kind == event.ErrorCancelled {
		end.Status = event.Cancelled
	}
	return end
}
