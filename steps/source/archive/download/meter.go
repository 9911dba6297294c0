package download

import (
	"context"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

// reportEvery is how often a Meter reports at most.
const reportEvery = 100 * time.Millisecond

// Meter reports how far a download is.
type Meter struct {
	ctx  context.Context
	what event.Progress
	last time.Time
}

// NewMeter returns a meter for the source named in what is shown; id tells it from others of the run.
func NewMeter(ctx context.Context, id, title string) *Meter {
	return &Meter{ctx: ctx, what: event.Progress{ID: id, Title: title, Unit: "bytes"}}
}

// Set says how many bytes are there; total is 0 when that is not known.
func (m *Meter) Set(current, total int64) {
	if m == nil {
		return
	}
	m.what.Current, m.what.Total = current, max(0, total)
	if now := time.Now(); now.Sub(m.last) >= reportEvery {
		m.last = now
		source.Progress(m.ctx, m.what)
	}
}

// Done says that it is over, whatever came of it.
func (m *Meter) Done() {
	if m == nil || m.what.Done {
		return
	}
	m.what.Done = true
	source.Progress(m.ctx, m.what)
}
