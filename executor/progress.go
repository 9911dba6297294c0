package executor

import "github.com/rungci/rung/steps/event"

// Reporter takes how far the preparation of an environment is: each phase when it begins, as it goes on, and when it is done. It may be
// called by several goroutines at once.
type Reporter func(event.Preparing)

// Report calls the reporter, which may be nil.
func (r Reporter) Report(p event.Preparing) {
	if r != nil {
		r(p)
	}
}

// Say reports a message within a phase.
func (r Reporter) Say(phase event.Phase, subject, message string) {
	r.Report(event.Preparing{Phase: phase, Subject: subject, Message: message})
}
