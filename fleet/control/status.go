package control

import (
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Status is a fleet at a time, for people and for metrics.
type Status struct {
	At       time.Time
	Pools    []PoolStatus
	Machines []MachineStatus // by pool, and then in the order of their making
	Jobs     []JobStatus     // in the order of their asking
	// StoreError is why decisions cannot be recorded, and so nothing is done; empty: they can.
	StoreError string
}

// PoolStatus is a pool.
type PoolStatus struct {
	scale.Explanation
	MaxInstances, Slots int
	Price               float64 // of an hour of a machine
	Group               string  // its ID
	Listed              time.Time
	ListError           string // why the last list failed; empty: it did not
}

// MachineStatus is a machine.
type MachineStatus struct {
	scale.InstanceRecord
	// Since is when it got its state; PreparingError is why it is not ready yet, and CheckError why the last check failed.
	Since                      time.Time
	PreparingError, CheckError string
	// Interrupted is when its cloud takes it back; zero: that is not known.
	Interrupted time.Time
}

// JobStatus is a job.
type JobStatus struct {
	Key, ID, Project string
	State            JobState
	Request          string // the machine's; empty if it has none
	Since            time.Time
	Why              string // one sentence
}

// JobState is what a job does.
type JobState string

// The states.
const (
	Reserved JobState = "reserved"
	Waiting  JobState = "waiting"
	Running  JobState = "running"
)
