package service

import (
	"cmp"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// blame finds out in which step the failure of a run began. A list that fails has the error of one of its steps, which it puts
// the step's name before.
type blame struct {
	// failed are the steps that have failed, by id, until the step that they stand in has ended.
	failed map[string]failedStep
}

// failedStep is a step that has failed.
type failedStep struct {
	cause  string // the message of its error, without names
	origin string // the step in it whose failure became its own; itself, where that is none
}

// finished takes note of the end of a step.
func (b *blame) finished(id string, end *event.StepFinished) {
	origin := id
	if end.Error != nil {
		origin = cmp.Or(b.origin(id, end.Error), id)
	}
	for other := range b.failed {
		if strings.HasPrefix(other, id+".") {
			delete(b.failed, other)
		}
	}
	delete(b.failed, id)
	if end.Error == nil || end.Allowed {
		return
	}
	if b.failed == nil {
		b.failed = map[string]failedStep{}
	}
	b.failed[id] = failedStep{cause: cause(end.Error), origin: origin}
}

// origin returns where the error of a step, or of the run (""), began; empty is in itself. Of two steps with the same error the
// engine takes the first in the list.
func (b *blame) origin(id string, err *event.Error) string {
	first := ""
	for other, f := range b.failed {
		if parent(other) == id && f.cause == cause(err) && (first == "" || before(other, first)) {
			first = other
		}
	}
	return b.failed[first].origin
}

// cause returns the message of an error without the names of steps (`step "a/b": `) that lists have put before it.
func cause(err *event.Error) string {
	if rest, ok := strings.CutPrefix(err.Message, `step "`); ok {
		if _, message, ok := strings.Cut(rest, `": `); ok {
			return message
		}
	}
	return err.Message
}

// parent returns the id of the step that another stands in.
func parent(id string) string { return id[:max(strings.LastIndexByte(id, '.'), 0)] }

// before reports whether a step stands before another one in the same list.
func before(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }
