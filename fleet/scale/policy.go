package scale

import "time"

// View is what a policy knows of a pool. Busy, Free and what follows are slots, unless it says machines.
type View struct {
	Pool      *Pool
	Busy      int // with jobs
	Draining  int // those of them on machines that take no more
	Free      int
	Waiting   int           // jobs for which this pool is to have slots
	Coming    int           // on machines that are being made
	Ready     int           // machines
	Instances int           // machines, in every state
	Idle      int           // machines without jobs
	Waited    time.Duration // by the job that has waited longest
	Boot      time.Duration
	Run       time.Duration // how long jobs take; 0 if none has ended
	Load      *Load
}

// Plan is what a policy wants.
type Plan struct {
	Change  int       // machines to make, or, below 0, idle ones to end
	Surplus int       // slots: no machine is ended that has more of them
	Spare   int       // slots that are to be free beyond those in demand
	Again   time.Time // when it may be another plan, though nothing happens; zero is never
}

// Policy decides how many machines a pool has, and which idle one goes first. It is asked with every decision: it must be quick, and is not safe for
// concurrent use.
type Policy interface {
	Plan(now time.Time, v *View) Plan
	// Sentence says why.
	Sentence(v *View, p Plan) string
	// Order is the time by which idle machines are sorted: the earliest goes first.
	Order(now time.Time, p *Pool, created, idleSince time.Time) time.Time
	// Hold is until when an idle machine is kept, though it is not needed.
	Hold(now time.Time, p *Pool, created, idleSince time.Time) time.Time
	// Preemptive says that jobs are reserved for only if a slot is ready.
	Preemptive(now time.Time) bool
	// Next is when the policy changes by itself; zero is never.
	Next(now time.Time) time.Time
}
