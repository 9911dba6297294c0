package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

func TestWhatAStepRunnerReportsIsBoundedAndHasAResult(t *testing.T) {
	most := session.MaxReported
	session.MaxReported = client.Reported{Log: 1 << 20, Events: 1 << 20}
	defer func() { session.MaxReported = most }()
	log := event.Event{Step: "1", Body: event.Log{Stream: event.Stdout, Data: make([]byte, 400<<10)}}
	warning := event.Event{Body: event.Warning{Message: strings.Repeat("x", 400<<10)}}
	empty := event.Event{Body: event.Log{}}
	many := make([]event.Event, 100_000)
	for i := range many {
		many[i] = empty
	}
	for name, c := range map[string]struct {
		told []event.Event
		want string // "" is no error
	}{
		"what it may":           {[]event.Event{log, warning}, ""},
		"too long a log":        {[]event.Event{log, log, log}, "reported more of the run"},
		"too much beside it":    {[]event.Event{warning, warning, warning}, "reported more of the run"},
		"too many empty events": {many, "reported more of the run"},
		"an unknown result":     {[]event.Event{{Body: event.RunFinished{Status: "splendid"}}}, `without a result ("splendid")`},
	} {
		t.Run(name, func(t *testing.T) {
			level := &forged.Level{Dir: t.TempDir(), Run: func(*forged.Environment) []event.Event { return c.told }}
			env, err := level.Prepare(t.Context(), &executor.Job{ID: "job"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer env.Close(t.Context())
			err = session.Run(t.Context(), nil, env, client.Request{ID: "run", Text: "- script: echo"}, ignore{})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, executor.ErrGone) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// ignore is a sink.
type ignore struct{}

func (ignore) Event(event.Event) {}
