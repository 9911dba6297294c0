package manager

import (
	"time"

	"github.com/rungci/rung/manager/job"
)

// HeldEvery changes how often GitLab hears of a job that is held, until it is called again with what it returns.
func HeldEvery(d time.Duration) (before time.Duration) {
	before, heldEvery = heldEvery, d
	return before
}

// UnfitPause changes how long an entry rests that cannot run jobs, until it is called again with what it returns.
func UnfitPause(d time.Duration) (before time.Duration) {
	before, unfitPause = unfitPause, d
	return before
}

// FitFor changes how long an entry is believed to be able to run jobs, until it is called again with what it returns.
func FitFor(d time.Duration) (before time.Duration) {
	before, fitFor = fitFor, d
	return before
}

// OnWrite makes every manager of this process call f after it has written down how far a job is, and with nil after it has removed that.
func OnWrite(f func(*job.Record)) { wrote = f }
