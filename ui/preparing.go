package ui

import (
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
)

const (
	// prepareTick is how often a phase that goes on has a line, where there is no live area.
	prepareTick = 5 * time.Second
	// maxPreparing bounds the phases of all jobs that are followed.
	maxPreparing = 4096
)

// preparingKey is one phase of one job.
type preparingKey struct {
	job, subject string
	phase        event.Phase
}

// preparing remembers when something was last said of the phases that go on.
type preparing struct{ shown map[preparingKey]time.Time }

// line returns what to say of a report in a line of its own; "" is nothing. With a live area phases that go on are shown there.
func (k *preparing) line(job string, p event.Preparing, live bool, now time.Time) string {
	if p.Message != "" {
		return p.Message
	}
	if p.Phase != event.PhasePulling && p.Phase != event.PhaseServices && p.Phase != event.PhaseQueued && p.Phase != event.PhaseProvisioning {
		return "" // it takes no time that anybody notices
	}
	key := preparingKey{job, p.Subject, p.Phase}
	last, known := k.shown[key]
	switch {
	case p.Done:
		delete(k.shown, key)
		if p.Phase == event.PhaseQueued || p.Phase == event.PhaseProvisioning {
			return ""
		}
		text := preparingText(p)
		if p.Duration > 0 {
			text += " in " + exact(p.Duration)
		}
		return text
	case live || known && now.Sub(last) < prepareTick || len(k.shown) >= maxPreparing:
		return ""
	}
	if k.shown == nil {
		k.shown = map[preparingKey]time.Time{}
	}
	k.shown[key] = now
	return preparingText(p)
}

// Preparing is a report in one line, for a program without a view; "" is nothing to show.
func Preparing(p event.Preparing) string { return (&preparing{}).line("", p, false, time.Now()) }

// preparingText is a phase in a few words, with how far it is.
func preparingText(p event.Preparing) string {
	pick := func(going, done string) string {
		if p.Done {
			return done
		}
		return going
	}
	var text string
	switch p.Phase {
	case event.PhaseQueued:
		text = pick("waiting for", "waited for")
	case event.PhaseProvisioning:
		text = pick("waiting for a machine", "got a machine")
	case event.PhasePulling:
		text = pick("pulling", "pulled")
	case event.PhaseCreating:
		text = pick("creating the environment", "created the environment")
	case event.PhaseServices:
		text = pick("starting service", "started service")
	case event.PhaseStarting:
		text = pick("starting the step-runner", "started the step-runner")
	default:
		text = string(p.Phase)
	}
	text = strings.TrimSpace(text + " " + cleanLabel(p.Subject))
	far := event.Progress{Current: p.Current, Total: p.Total, Unit: p.Unit}
	if p.Done {
		far.Total = 0
	}
	if p.Current > 0 {
		text += "  " + amount(far)
	}
	return text
}
