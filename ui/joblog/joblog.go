// Package joblog renders the events of a run as a GitLab job log.
//
// The log is a pure function of the events and of Options: the same events give the same bytes, the events so far give the bytes so far, and
// nothing that was written changes. So an offset into a log that was sent before a restart still holds after it; see Resume. Nothing of the
// clock, the machine or the way in which bytes arrive takes part: times are those of events.
//
// # Format
//
// The format is that of gitlab-runner (C60-C66: sections, FF_TIMESTAMPS, URL parameters and token prefixes) as GitLab's web interface parses it:
//
//   - A section begins with "section_start:UNIX:NAME[collapsed=true]\r\x1b[0K" and ends with "section_end:UNIX:NAME\r\x1b[0K".
//   - With Options.Timestamps every entry begins with "2006-01-02T15:04:05.000000Z SSTF": the number of the stream in hexadecimal (00 the
//     runner, 01 the job), O or E, and a space or, where it continues the entry before it, a plus sign.
//
// The steps of a job that is written as steps get a section each, as far as sections can nest; the output of steps that run at the same time is
// shown a line at a time, behind the name of the step. Steps of the catalog have the names and the headlines that GitLab's runner gives them,
// and what they are made of is not shown.
//
// # Masking
//
// Secrets are masked before log data becomes events: what a run masks from some point on is masked in the events after event.Masked, and the
// bytes before it stay as they are. The renderer masks what GitLab masks beyond that: tokens with known prefixes and credentials in URLs.
package joblog

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
)

// Options say how a log looks. A log can be resumed with the options that it began with alone.
type Options struct {
	// Timestamps begins every entry with its time and stream (FF_TIMESTAMPS).
	Timestamps bool
	// Sections folds steps (the feature trace_sections of a job).
	Sections bool
	// CollapseSetup begins all sections collapsed but those of the job's own commands.
	CollapseSetup bool
	// TokenPrefixes are masked with what follows them, beyond those that GitLab has by default (the feature token_mask_prefixes).
	TokenPrefixes []string
	// Limit is how many bytes of log there are at most, with a notice after them; 0 means no limit.
	Limit int64
	// Runner is what the first line calls the program, and after a line end, what the second one says of the runner; empty leaves the first
	// line to RunStarted.
	Runner string
}

// Position is a point in a log: after so many events, so many bytes were written.
type Position struct {
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
}

// Renderer makes the log of one run. It is used by one goroutine at a time.
type Renderer struct {
	opts   Options
	out    []byte // the caller's buffer, with what the event at hand adds from start on
	start  int
	at     Position
	resume *Position
	full   bool // the limit is reached

	tokens     *tokenSet
	steps      map[string]*step
	open       []*step        // whose sections are open, outermost first
	names      map[string]int // sections by name
	stamp      []byte         // stampTime as entries have it
	stampTime  time.Time
	runner     source  // what this package says
	lastTo     *source // whose entry is unfinished at the end of the log; nil when it ends with a line end
	marked     bool    // the log ends with the mark of a section
	prepare    bool    // the section of the preparation is open
	introduced bool    // the first line is written
	ending     bool    // a step has failed, or the run was stopped
	killed     bool    // the run was asked to end at once: what begins after that has no time
	stopped    string  // why the run was stopped, as was said last
	troubled   string  // the message of the error of a step that was said last
}

// New begins a log.
func New(o Options) *Renderer {
	return &Renderer{opts: o, tokens: newTokenSet(o.TokenPrefixes), steps: map[string]*step{}, names: map[string]int{}}
}

// Resume goes on with a log of which the bytes up to a position are already kept elsewhere. It has to be given the events from the first one
// on, and writes what follows the position only. A position of 0 events and some bytes is one whose event nobody wrote down.
func Resume(o Options, at Position) *Renderer {
	r := New(o)
	r.resume = &at
	return r
}

// Position returns how far the log is.
func (r *Renderer) Position() Position { return r.at }

// Append appends to buf what the next event adds to the log. The error says that the log is not the one that was begun: the events or the
// options are other ones. Nothing can be appended after it.
func (r *Renderer) Append(buf []byte, e event.Event) ([]byte, error) {
	r.out, r.start = buf, len(buf)
	r.event(e)
	out := r.out
	r.out = nil
	r.at.Events++
	before := r.at.Bytes
	r.at.Bytes += int64(len(out) - len(buf))
	if p := r.resume; p != nil {
		switch {
		case r.at.Events < p.Events:
			if r.at.Bytes > p.Bytes {
				return buf, changed(p, r.at)
			}
			return buf, nil
		case p.Events == 0 && r.at.Bytes < p.Bytes:
			return buf, nil
		case r.at.Events == p.Events || p.Events == 0:
			// A position may be inside of what an event adds: its sender stopped there.
			if p.Bytes < before && p.Events > 0 || p.Bytes > r.at.Bytes {
				return buf, changed(p, r.at)
			}
			r.resume = nil
			return append(buf, out[len(buf)+int(max(p.Bytes-before, 0)):]...), nil
		}
	}
	return out, nil
}

func changed(want *Position, is Position) error {
	return fmt.Errorf("cannot resume the job log: it had %d bytes after event %d, and has %d after event %d now; its events or options have changed",
		want.Bytes, want.Events, is.Bytes, is.Events)
}

// limitNotice is what gitlab-runner writes where a log ends that is too long.
const limitNotice = "\n\x1b[33;1mJob's log exceeded limit of %d bytes.\nJob execution will continue but no more output will be collected.\x1b[0;m\n"

// bound keeps what was added to the log from an index of out on within its limit.
func (r *Renderer) bound(from int) {
	if r.full {
		r.out = r.out[:from]
		return
	}
	have := r.at.Bytes + int64(from-r.start)
	added := r.out[from:]
	if r.opts.Limit <= 0 || have+int64(len(added)) <= r.opts.Limit {
		return
	}
	n := int(r.opts.Limit - have)
	for n > 0 && !utf8.RuneStart(added[n]) {
		n--
	}
	r.out = fmt.Appendf(r.out[:from+n], limitNotice, r.opts.Limit)
	r.full = true
}
