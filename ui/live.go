package ui

import (
	"fmt"
	"time"
)

const (
	maxLiveRows  = 8       // what is running; the rest is counted
	pendingBytes = 1 << 20 // committed output that waits for the next draw

	// Terminals that know synchronised output show a frame all at once; others ignore it.
	frameBegin  = "\x1b[?2026h\x1b[?25l"
	frameEnd    = "\x1b[?25h\x1b[?2026l"
	wipeDown    = "\x1b[J"
	restoreLook = "\x1b[?25h"
	// The rows are drawn without wrapping: a terminal may think a character wider than we do.
	wrapOff = "\x1b[?7l"
	wrapOn  = "\x1b[?7h"
)

// liveArea is a few rows at the bottom of a terminal, below lines that are committed and scroll by. Between draws the cursor stands at the
// start of its last row.
type liveArea struct {
	o         Options
	out, err  *outlet
	same      bool   // both outlets are this terminal
	pending   []byte // committed, waiting for the next draw
	cuts      []cut  // whose it is
	drawn     []int  // the widths of the rows of the live area on the screen
	lastFrame time.Time
	frames    int
}

// cut says that pending up to end, from the cut before it, goes to one of the outlets.
type cut struct {
	end int
	to  *outlet
}

func newLiveArea(o Options) *liveArea {
	a := &liveArea{o: o}
	a.out, a.err, a.same = newOutlets(o)
	return a
}

func (a *liveArea) commit(to *outlet, text []byte) {
	a.pending = append(a.pending, text...)
	if n := len(a.cuts); n > 0 && a.cuts[n-1].to == to {
		a.cuts[n-1].end = len(a.pending)
	} else {
		a.cuts = append(a.cuts, cut{len(a.pending), to})
	}
	if len(a.pending) > pendingBytes {
		a.flush(nil)
	}
}

// tick draws the rows that draw makes, but not before the last frame has stood for a moment.
func (a *liveArea) tick(now time.Time, draw func() []string) {
	if now.Sub(a.lastFrame) < frameInterval {
		return
	}
	rows := draw()
	if len(rows) == 0 && len(a.drawn) == 0 && len(a.pending) == 0 {
		return
	}
	a.lastFrame = now
	a.frames++
	a.flush(rows)
}

// flush wipes the live area, writes what was committed, and draws the rows below it.
func (a *liveArea) flush(rows []string) {
	frame := append([]byte(nil), frameBegin...)
	frame = append(frame, a.wipe()...)
	start := 0
	for _, c := range a.cuts {
		if c.to == a.err {
			frame = append(frame, a.pending[start:c.end]...)
		} else {
			a.err.write(frame)
			frame = frame[:0]
			c.to.write(a.pending[start:c.end])
		}
		start = c.end
	}
	a.pending, a.cuts, a.drawn = a.pending[:0], a.cuts[:0], a.drawn[:0]
	for i, row := range rows {
		if i == 0 {
			frame = append(frame, wrapOff...)
		} else {
			frame = append(frame, '\n')
		}
		frame = append(frame, row...)
		a.drawn = append(a.drawn, cellWidth(row))
	}
	if len(rows) > 0 {
		frame = append(append(frame, '\r'), wrapOn...)
	}
	a.err.write(append(frame, frameEnd...))
}

// wipe returns what removes the live area. Rows that no longer fit since the terminal became narrower have been wrapped
// by it, and take several lines each.
func (a *liveArea) wipe() string {
	if len(a.drawn) == 0 {
		return ""
	}
	width, up := a.o.Width(), 0
	for _, w := range a.drawn[:len(a.drawn)-1] {
		up += max(1, (w+width-1)/width)
	}
	if up == 0 {
		return "\r" + wipeDown
	}
	return fmt.Sprintf("\r\x1b[%dA%s", up, wipeDown)
}

func (a *liveArea) close() error {
	if len(a.pending) > 0 || len(a.drawn) > 0 {
		a.flush(nil)
	} else if a.frames > 0 {
		a.err.write([]byte(restoreLook))
	}
	if a.out.err != nil {
		return a.out.err
	}
	return a.err.err
}
