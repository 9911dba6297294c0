package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/steps/event"
)

const (
	minBarWidth = 50 // a narrower terminal gets no progress bars, only numbers
	barCells    = 20
	minLastLine = 6 // cells; less of a line of output says nothing
)

// tty commits lines above a small live area.
type tty struct {
	*liveArea
	look    look
	run     *run
	scratch []byte
}

func newTTY(o Options, r *run) *tty {
	return &tty{liveArea: newLiveArea(o), look: newLook(o), run: r}
}

func (t *tty) status(text string) { t.commit(t.err, []byte(text)) }

func (t *tty) output(s *step, stream event.Stream, data []byte, named bool) {
	to := t.outlet(stream)
	if to == nil {
		t.out.pass(t.look, s, stream, data, named) // into a file or a pipe, as it is
		return
	}
	s.wholeLines(stream, data, func(line []byte) { t.commitLine(to, s, line, named) })
}

// outlet returns where a stream's output is committed on the screen; nil when it does not go to the screen.
func (t *tty) outlet(stream event.Stream) *outlet {
	switch {
	case stream == event.Stderr || t.same:
		return t.err
	case t.o.StdoutTTY:
		return t.out
	}
	return nil
}

func (t *tty) commitLine(to *outlet, s *step, line []byte, named bool) {
	t.scratch = t.scratch[:0]
	if named {
		t.scratch = append(append(t.scratch, s.label...), t.look.separator...)
	}
	if hasControl(line) {
		t.scratch = cleantext.AppendLine(t.scratch, lastOverwrite(line), true)
	} else {
		t.scratch = append(t.scratch, line...)
	}
	t.scratch = append(t.scratch, '\n')
	t.commit(to, t.scratch)
}

func (t *tty) ended(s *step) {
	for _, stream := range []event.Stream{event.Stdout, event.Stderr} {
		to, i := t.outlet(stream), index(stream)
		if to == nil {
			t.out.flush(t.look, s, stream)
			continue
		}
		if len(s.partial[i]) > 0 {
			t.commitLine(to, s, s.partial[i], s.inParallel || t.run.leaves > 1)
			s.partial[i] = nil
		}
	}
}

// tick draws the live area.
func (t *tty) tick(now time.Time) { t.liveArea.tick(now, func() []string { return t.rows(now) }) }

// rows returns the live area: what is running, what is under way, and the counts. It leaves at least one line of the
// terminal to the committed lines.
func (t *tty) rows(now time.Time) []string {
	budget := min(maxLiveRows+1, t.o.Height()-1)
	if budget < 1 || t.run.leaves+len(t.run.progress) == 0 {
		return nil
	}
	width := max(1, t.o.Width()-1) // a full last column would wrap
	budget--                       // for the counts
	bars := min(len(t.run.progress), max(budget/2, budget-t.run.leaves))
	var rows []string
	t.run.working(func(s *step) bool {
		if len(rows) == budget-bars {
			return false
		}
		rows = append(rows, t.stepRow(s, now, width))
		return true
	})
	hidden := t.run.leaves - len(rows)
	for _, p := range t.run.progress[:bars] {
		rows = append(rows, t.progressRow(p, width))
	}
	rows = append(rows, t.countsRow(hidden, now))
	for i, row := range rows {
		rows[i] = truncate(row, width, "")
	}
	return rows
}

func (t *tty) stepRow(s *step, now time.Time, width int) string {
	l := t.look
	label := truncate(s.label, max(8, width/2), l.dots)
	row := l.paint(styleInfo, l.spinner[t.frames%len(l.spinner)]) + " " + label + "  " + whole(now.Sub(s.started))
	last := s.tail.lastLine()
	if room := width - cellWidth(row) - 2; last != "" && room >= minLastLine {
		row += "  " + l.paint(styleFaint, truncate(last, room, l.dots))
	}
	return row
}

func (t *tty) progressRow(p *progress, width int) string {
	l := t.look
	row := "  " + truncate(cleanLabel(p.Title), max(8, width/2), l.dots)
	if p.Total > 0 && width >= minBarWidth {
		full := percent(p.Progress) * barCells / 100
		row += "  " + strings.Repeat(l.barFull, full) + strings.Repeat(l.barEmpty, barCells-full)
	}
	return row + "  " + amount(p.Progress)
}

func (t *tty) countsRow(hidden int, now time.Time) string {
	var parts []string
	add := func(n int, s style, what string) {
		if n > 0 {
			parts = append(parts, t.look.paint(s, fmt.Sprintf(what, n)))
		}
	}
	if hidden > 0 {
		add(hidden, styleInfo, "+%d more running")
	} else {
		add(t.run.leaves, styleInfo, "%d running")
	}
	c := t.run.counts
	add(c.Success, styleGood, "%d ok")
	add(c.Failure, styleBad, "%d failed")
	add(c.Allowed, styleWarn, "%d allowed to fail")
	add(c.Cancelled, styleWarn, "%d cancelled")
	add(c.Skipped, styleFaint, "%d skipped")
	parts = append(parts, whole(now.Sub(t.run.started)))
	return strings.Join(parts, "  ")
}
