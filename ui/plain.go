package ui

import (
	"time"

	"github.com/rungci/rung/steps/event"
)

// printer puts what is said on the screen.
type printer interface {
	// status commits whole lines of ours.
	status(text string)
	// output commits output of a step, in named lines where several steps write at a time.
	output(s *step, stream event.Stream, data []byte, named bool)
	// ended completes what is left of a step's output.
	ended(s *step)
	// tick is called after every event and a few times a second.
	tick(now time.Time)
	// close puts out what is held back and leaves the terminal as it was found.
	close() error
}

// plain writes lines as they come and never moves the cursor.
type plain struct {
	look     look
	out, err *outlet
}

func newPlain(o Options) *plain {
	out, err, _ := newOutlets(o)
	return &plain{look: newLook(o), out: out, err: err}
}

func (p *plain) status(text string) {
	p.err.lineStart()
	p.err.write([]byte(text))
}

func (p *plain) output(s *step, stream event.Stream, data []byte, named bool) {
	p.outlet(stream).pass(p.look, s, stream, data, named)
}

func (p *plain) outlet(stream event.Stream) *outlet {
	if stream == event.Stderr {
		return p.err
	}
	return p.out
}

func (p *plain) ended(s *step) {
	p.out.flush(p.look, s, event.Stdout)
	p.err.flush(p.look, s, event.Stderr)
}

func (p *plain) tick(time.Time) {}

func (p *plain) close() error {
	if p.out.err != nil {
		return p.out.err
	}
	return p.err.err
}
