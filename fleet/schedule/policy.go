package schedule

import "time"

// Policy says how many slots a fleet keeps ready during its periods. The last policy whose periods hold a time is in force.
type Policy struct {
	Periods Periods
	// IdleCount is how many slots are kept free, IdleTime how long a machine may be idle.
	IdleCount int
	IdleTime  time.Duration
	// ScaleFactor keeps this share of the slots in use free as well, at most ScaleFactorLimit; 0 is no share, and no limit.
	ScaleFactor      float64
	ScaleFactorLimit int
	// Preemptive asks for a job only if a slot is ready.
	Preemptive bool
}

// Outside is the policy in force when no period holds: nothing is kept, and idle machines go after five minutes. What the existing autoscaler does then
// is not documented; its implementation for Kubernetes does this.
var Outside = Policy{IdleTime: 5 * time.Minute}

// Policies are looked through from the last to the first.
type Policies []Policy

// At is the policy in force at a time.
func (all Policies) At(t time.Time) Policy {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Periods.Contains(t) {
			return all[i]
		}
	}
	return Outside
}
