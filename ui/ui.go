// Package ui holds the views of a run: what people and programs see of its events.
//
// Every view is a sink of events and is made from nothing else, so that a run that is replayed from its trace looks the
// same. The plain, tty and quiet views share one reporter, which decides what is said; a printer decides how it gets on
// the screen. Lines that are said once are committed: they scroll and are never changed. The tty view has a small live
// area below them.
package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/steps/event"
)

// Mode is a kind of view.
type Mode string

// The modes.
const (
	ModeAuto  Mode = "auto"  // tty on a terminal, else plain
	ModeTTY   Mode = "tty"   // committed lines above a live area
	ModePlain Mode = "plain" // lines only, no cursor control
	ModeQuiet Mode = "quiet" // warnings, and what went wrong
	ModeJSON  Mode = "json"  // every event as one line of JSON
)

// ParseMode reads a mode by name; "" is auto.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case "":
		return ModeAuto, nil
	case ModeAuto, ModeTTY, ModePlain, ModeQuiet, ModeJSON:
		return m, nil
	}
	return "", fmt.Errorf("unknown progress mode %q: use auto, tty, plain, quiet or json", name)
}

// Show says which steps' output is shown.
type Show string

// The values of Show.
const (
	ShowAll  Show = "all"  // as it comes
	ShowFail Show = "fail" // the end of the output of a step that failed, when it fails
	ShowNone Show = "none" // none, but for the last lines of the failure that decides the run
)

// ParseShow reads a Show by name; "" is all.
func ParseShow(name string) (Show, error) {
	switch s := Show(name); s {
	case "":
		return ShowAll, nil
	case ShowAll, ShowFail, ShowNone:
		return s, nil
	}
	return "", fmt.Errorf("unknown value %q for the output to show: use all, fail or none", name)
}

// Options say what a view shows, and where.
type Options struct {
	Mode Mode // "" is auto
	Show Show // "" is all
	// Verbose adds detail: 1 shows inputs, outputs, resolved references and exit codes, 2 also commands and the names of
	// environment variables.
	Verbose int
	Quiet   bool // the same as ModeQuiet, unless Mode is json
	// Stdout takes what steps write to their standard output, Stderr everything else. A nil writer discards.
	Stdout, Stderr io.Writer
	// StdoutTTY and StderrTTY say which of them is a terminal.
	StdoutTTY, StderrTTY bool
	// Width and Height are the size of the terminal in cells. They are asked for again at every draw. 80 by 24 is assumed
	// where they are nil or return nothing positive.
	Width, Height func() int
	Color         bool   // see ColorWanted
	ASCII         bool   // no symbol beyond ASCII in what we write
	TraceFile     string // named at the end of a run that failed, so that it can be looked at; "" is none
	// Fold marks jobs and steps as parts that fold, in a plain view; "" is none.
	Fold Fold
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// View shows the events that it is given. Close flushes it and leaves the terminal as it was found; it may be called
// more than once and returns the first error of writing. Events after Close are dropped.
type View interface {
	event.Sink
	Close() error
}

// New returns the view that the options ask for. It may start a goroutine, which ends with Close.
func New(o Options) View {
	o = o.withDefaults()
	if o.Mode == ModeJSON && o.StdoutTTY {
		return newJSONView(&cleantext.JSONWriter{W: o.Stdout})
	}
	if o.Mode == ModeJSON {
		return newJSONView(o.Stdout)
	}
	r := newReporter(o)
	if o.Mode != ModeQuiet {
		r.startClock()
	}
	return r
}

func (o Options) withDefaults() Options {
	if o.Mode == "" || o.Mode == ModeAuto {
		o.Mode = ModePlain
		if o.StderrTTY {
			o.Mode = ModeTTY
		}
	}
	if o.Quiet && o.Mode != ModeJSON {
		o.Mode = ModeQuiet
	}
	if o.Show == "" {
		o.Show = ShowAll
	}
	if o.Fold == "" || o.Mode != ModePlain {
		o.Fold = FoldNone
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Width, o.Height = sizeOr(o.Width, 80), sizeOr(o.Height, 24)
	return o
}

// sizeOr guards a size against a terminal that does not know it.
func sizeOr(size func() int, fallback int) func() int {
	return func() int {
		if size != nil {
			if n := size(); n > 0 {
				return n
			}
		}
		return fallback
	}
}

// ColorWanted decides on colour: the flag ("always", "never", else auto), then NO_COLOR (any non-empty value), then
// CLICOLOR_FORCE and FORCE_COLOR (anything but empty, "0" and "false"), then TERM=dumb, then whether it is a terminal.
func ColorWanted(env func(string) string, flag string, isTTY bool) bool {
	switch flag {
	case "always":
		return true
	case "never":
		return false
	}
	if env("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"CLICOLOR_FORCE", "FORCE_COLOR"} {
		if v := strings.ToLower(env(name)); v != "" && v != "0" && v != "false" {
			return true
		}
	}
	return isTTY && env("TERM") != "dumb"
}
