package session

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
)

func TestWhatMakingAPlaceTook(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := start
	var told []event.Preparing
	p := &Preparation{
		Tell: func(e event.Preparing) { told = append(told, e) }, Now: func() time.Time { return now },
		Hide: func(text string) string { return strings.ReplaceAll(text, "s3cret", "[MASKED]") },
	}
	for _, e := range []event.Preparing{
		{Phase: event.PhasePulling, Subject: "node:20"},
		{Phase: event.PhasePulling, Subject: "postgres"}, // beside it
		{Phase: event.PhasePulling, Subject: "node:20", Current: 70, Total: 70, Unit: "bytes", Done: true},
		{Phase: event.PhaseServices, Subject: "postgres", Message: "the password is s3cret"},
		{Phase: event.PhaseStarting},
	} {
		p.Report(e)
		now = now.Add(time.Second)
	}
	want := []event.Prepared{
		{Phase: event.PhasePulling, Subject: "node:20", Started: start, Duration: 2 * time.Second, Amount: 70, Unit: "bytes"},
		{Phase: event.PhasePulling, Subject: "postgres", Started: start.Add(time.Second), Duration: 2 * time.Second},
		{Phase: event.PhaseServices, Subject: "postgres", Started: start.Add(3 * time.Second), Duration: time.Second},
		{Phase: event.PhaseStarting, Started: start.Add(4 * time.Second), Duration: time.Second},
	}
	if diff := cmp.Diff(want, p.Ended()); diff != "" {
		t.Error(diff)
	}
	if told[2].Duration != 2*time.Second || told[3].Message != "the password is [MASKED]" {
		t.Errorf("people are told %+v", told)
	}
}
