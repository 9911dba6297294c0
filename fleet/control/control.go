// Package control is the loop around the decision of a fleet (fleet/scale): it tells it what happens, records what it decides, and does it.
//
//	Reserve, Acquire, Release ──┐                         ┌──> store.Commit, then: create, delete     a call of a group each, in goroutines of their own
//	lists, watches, heartbeats ─┼──> scale.Fleet ──Decide─┤                         place, end        Acquire returns, Slot.Done closes
//	answers of calls, the clock ┘    under a mutex        └──> when to decide again
//
// No call of a group, and none of Prepare or Check, is made under the mutex: one that hangs, fails or takes an hour holds up nothing but itself. Each
// has a limit, after which it counts as failed whether it returns or not.
//
// A process that is killed at any point leaves a store from which the next one goes on: it has every machine that was ever asked for, and the jobs on
// them, which are recovered by their keys.
package control

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// Options are what a fleet is made of.
type Options struct {
	// Scale has the pools, in its Name that of the fleet, which must be another one for every fleet of a cloud account and stay the same: at most 40 letters, digits,
	// - and _.
	Scale scale.Config
	// Policy is the fleet's alone: it is not safe for concurrent use.
	Policy scale.Policy
	// Pools are the groups of the pools of Scale, by name. Several pools may have one group, if it makes machines of several shapes. Only a retired pool may have
	// none: its machines stay, and the log says so.
	Pools map[string]Pool
	// Store is what the fleet outlives the process in. Close does not close it.
	Store store.Store
	Log   *slog.Logger
	// Clock is the time; nil is this machine's.
	Clock Clock
	// Observe is told every entry of the history, in order; nil: nobody is. It must be quick, and must not call the Fleet.
	Observe func(store.Entry)

	// Prepare makes a new machine ready: it connects, and runs what is to run there first. It is called again after errors, until it returns nil or the pool's
	// BootTimeout is over; an error that wraps ErrUseless ends the machine at once, one that wraps ErrRefused once it has come for three minutes. nil: a machine is ready when its group says that it runs.
	Prepare func(ctx context.Context, m *Machine) error
	// Check says whether a machine that is ready can be reached, beside the heartbeat of its group. nil: that is enough.
	Check func(ctx context.Context, m *Machine) error
	// Mount gives the user of a machine the volume that its group has attached there as a block device, and returns the folder in which that user has it. nil: no volume
	// that is a device can be used. Unmount takes a volume back before its group is asked to detach it; folder is where the machine had it, or empty if that is not known.
	// nil: nothing is mounted. Both are called again after errors, and Unmount also for volumes that are not mounted, or are folders of their group. A call of one may begin
	// while one of the other, that was given up, still goes on.
	Mount   func(ctx context.Context, m *Machine, volume, device string) (folder string, err error)
	Unmount func(ctx context.Context, m *Machine, volume, folder string) error

	// UpdateInterval is how often groups are listed (0: a minute); where machines have jobs at least every ListWhileBusy. UpdateIntervalWhenExpecting is how often
	// while machines are being made or deleted, or are missing (0: two seconds).
	UpdateInterval, UpdateIntervalWhenExpecting time.Duration
	// CheckInterval is how often a machine that is ready is checked (0: ten seconds with jobs, and a minute without). FailureThreshold is after how many failed checks
	// in a row it has failed (0: three). A machine that was not checked lately is checked before it gets a job.
	CheckInterval    time.Duration
	FailureThreshold int
	// CallTimeout bounds each call of a group (0: a minute), PrepareTimeout each of Prepare (0: five minutes), CheckTimeout each of Check (0: ten seconds).
	CallTimeout, PrepareTimeout, CheckTimeout time.Duration
	// RecoverWithin is how long jobs of an earlier process keep their slots that nobody recovers (0: ten minutes).
	RecoverWithin time.Duration

	// DeleteOnShutdown lets Close end all machines that have no jobs; it asks ShutdownDeletionRetries times (0: three), with ShutdownDeletionInterval between
	// (0: ten seconds).
	DeleteOnShutdown         bool
	ShutdownDeletionInterval time.Duration
	ShutdownDeletionRetries  int
}

// Pool is where the machines of a pool come from.
type Pool struct {
	// Group has been initialised, with Settings.Owner that of this fleet alone. It is shut down by whoever has initialised it, after Close.
	Group *group.Group
	// Shape, Zone, Spot and Labels are those of requests: group.Request.
	Shape, Zone string
	Spot        bool
	Labels      map[string]string
	// Suspend lets idle machines be suspended, and not deleted, until so many are. They are resumed before new ones are made. 0: none.
	Suspend int
}

// Clock is what time it is.
type Clock interface {
	Now() time.Time
	// After sends the time once d has passed.
	After(d time.Duration) <-chan time.Time
}

// Errors of a fleet. Reserve and Acquire return scale.ErrNoCapacity and scale.ErrUnfit as well.
var (
	// ErrUseless is wrapped by errors of Prepare that will not get better.
	ErrUseless = errors.New("the machine is useless")
	// ErrRefused is wrapped by errors of Prepare about a machine that answers and lets nobody in, which may get better while it boots.
	ErrRefused = errors.New("the machine refuses the login, or is not trusted")
	// ErrClosed says that the fleet is closed.
	ErrClosed = errors.New("the fleet is closed")
	// ErrReleased says that a key was released while somebody waited for it.
	ErrReleased = errors.New("the job was released")
	// ErrGone says that a job of an earlier process has no machine any more.
	ErrGone = errors.New("the machine of the job no longer exists")
)

// Job is who has a slot, for people and for the bill.
type Job struct {
	ID, Project string
	// Needs are those of the reservation, or other ones.
	Needs scale.Needs
}

// Machine is a machine of a group, for Prepare and Check.
type Machine struct {
	Pool, Request, Instance string
	// Group is what its group said of it last.
	Group group.Instance

	access *access
}

// ConnectInfo says how to reach the machine. It is asked of the group once, and again shortly before it expires, however many ask.
func (m *Machine) ConnectInfo(ctx context.Context) (group.ConnectInfo, error) {
	return m.access.get(ctx)
}

// Slot is the place of one job on a machine.
type Slot struct {
	Machine
	Key    string
	Number int // from 0, on its machine
	// Volume is the folder on the machine with the volume of the job's tenant, which no other job has, or only jobs of that tenant (scale.Volumes); empty: the job has none.
	Volume string
	// Waited is how long it took to get it.
	Waited time.Duration

	lost *lost
}

// Done is closed when the job has lost its machine, or was released.
func (s *Slot) Done() <-chan struct{} { return s.lost.done }

// Reason is one sentence that says why Done is closed; empty while it is not.
func (s *Slot) Reason() string { return s.lost.reason() }
