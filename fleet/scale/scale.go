// Package scale decides how many machines a fleet has, which goes next, and which job runs where.
//
//	Reserve, Ask, Release                a job's key, with what it needs ─┐
//	Created, CreateFailed, Ready,        results of what was asked for    ├──> Fleet ──Decide(now)──> Actions: create, delete, suspend, resume, drain, place, end
//	Deleted, DeleteFailed                                                 │                           and when to decide again
//	Listed, ListFailed, Failed,          what the machines are            ┘
//	Interrupted
//
// A Fleet is a state machine of one goroutine. It has no clock, no randomness and no connections: every method is told the time, and the same calls
// give the same actions. What it says is done by somebody else, who records an action before carrying it out: a create has a request id that is
// the same however often it is repeated.
//
// What always holds: a machine with a job on it is never deleted; a machine that was asked for is in the fleet until somebody has seen it gone; no
// pool has more machines than its limit; what is repeated makes no second machine; a volume is attached to one machine at a time, and reached by jobs of its
// tenant alone; no job waits for a volume alone.
package scale

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Shape is what a machine has. What is 0 or empty is unknown, and enough for nobody who asks for it.
type Shape struct {
	CPUs         float64
	Memory, Disk int64 // bytes
	GPUs         int
	Arch, OS     string // as GOARCH and GOOS have them
}

// Spot says whether a job may run on a machine that its cloud can take back.
type Spot int

// The answers.
const (
	AnySpot Spot = iota
	OnlySpot
	NoSpot
)

// Needs are what a job asks for. The zero value is content with any machine.
type Needs struct {
	Shape
	Spot Spot
	// Tenant is whose the job is: jobs of others never reach its volume. Volume says that it wants that.
	Tenant string `json:",omitempty"`
	Volume bool   `json:",omitempty"`
}

// class is what of the needs pools differ in.
func (n Needs) class() Needs {
	n.Tenant, n.Volume = "", false
	return n
}

// Billing is how a machine is paid for: for Minimum at least, and then for each Granularity that has begun. Zeros are an exact bill.
type Billing struct {
	Granularity, Minimum time.Duration
}

// Paid is how long a machine is paid for that has existed for some time.
func (b Billing) Paid(lived time.Duration) time.Duration {
	if b.Granularity > 0 {
		lived = (lived + b.Granularity - 1) / b.Granularity * b.Granularity
	}
	return max(lived, b.Minimum)
}

// Pool is a kind of machine, and how many of them there may be.
type Pool struct {
	Name  string
	Group string // pools of one group have one list of instances, in which each has an id
	Shape Shape  // of a machine; each of its slots has the same share of it
	Spot  bool
	Price float64 // of an hour
	// SuspendedPrice is of an hour while a machine is suspended: of its disks. Billing is about the other hours.
	SuspendedPrice float64
	Billing        Billing
	// Volumes says that its machines can have volumes, one at a time. Apart says that the jobs of a machine are kept apart there, now and later. Without it,
	// a volume comes to a machine on which no other tenant's job has ever run, and which runs one job at a time: pools with more slots have no volumes.
	Volumes, Apart bool
	// Slots is how many jobs a machine runs at once; 0 is one.
	Slots int
	// MaxInstances limits the machines in every state; MaxUses the jobs of one machine. 0 is no limit.
	MaxInstances, MaxUses int
	// GroupInstances is how many machines the group can have, of all its pools together: no more are asked for, and no more jobs are reserved for. Idle ones make way for jobs of
	// other pools. 0 is no limit.
	GroupInstances int
	// Suspend is how many idle machines are suspended, and not deleted; they are resumed before others are made. Their group must be able to.
	Suspend int
	// MaxComing limits the machines that are on their way at once. 0 is no limit.
	MaxComing int
	// Throttle limits how fast machines are asked for.
	Throttle Throttle
	// BootTime is how long a machine takes to become ready, until some did. BootTimeout is when it has failed; 0 is 15 minutes.
	BootTime, BootTimeout time.Duration
	// Retired says that the pool is not in the configuration any more: it is enough for nobody, and its machines finish their jobs, and go.
	Retired bool
}

// Throttle lets Limit machines a second be asked for, and Burst at once. A Limit of 0 is 100, a negative one none; a Burst of 0 is the limit
// of machines, or Limit if there is none.
type Throttle struct {
	Limit float64
	Burst int
}

// fits reports whether a slot of the pool is enough.
func (p *Pool) fits(n Needs) bool {
	slots, has := max(1, p.Slots), p.Shape // shares of a machine are compared, as a product could overflow
	switch {
	case n.Spot == OnlySpot && !p.Spot, n.Spot == NoSpot && p.Spot,
		n.Arch != "" && n.Arch != has.Arch, n.OS != "" && n.OS != has.OS,
		n.CPUs*float64(slots) > has.CPUs+1e-9, n.Memory > has.Memory/int64(slots), n.Disk > has.Disk/int64(slots), n.GPUs > has.GPUs/slots:
		return false
	}
	return true
}

// Config is what a fleet is made of.
type Config struct {
	Pools []Pool
	// Name begins the ids of requests. It must be another one for every fleet of a cloud account, and is kept with its state.
	Name string
	// DeleteRetry is the pause before a delete is asked for again; 0 is a minute.
	DeleteRetry time.Duration
	// MissingAfter is how long a machine may be missing from lists, of which there must be two, before its jobs are ended; 0 is ten seconds.
	MissingAfter time.Duration
	// ThrottleReservations leaves one of several machines that are free without reservations, so that it can go.
	ThrottleReservations bool
	// Volumes are what is kept for the tenants of jobs.
	Volumes Volumes
}

// MaxPools is how many pools a fleet can have.
const MaxPools = 64

// Kinds of limits and pauses that a Config leaves open.
const (
	defaultBootTimeout  = 15 * time.Minute
	defaultBootTime     = time.Minute
	defaultDeleteRetry  = time.Minute
	defaultMissingAfter = 10 * time.Second
	defaultThrottle     = 100
)

// New makes an empty fleet.
func New(config Config, policy Policy) (*Fleet, error) {
	used := 0
	for _, p := range config.Pools {
		if !p.Retired {
			used++
		}
	}
	if len(config.Pools) == 0 || used > MaxPools {
		return nil, fmt.Errorf("a fleet has 1 to %d pools, not %d", MaxPools, used)
	}
	f := &Fleet{classes: map[Needs]*group{}, machines: machines{
		config: config, policy: policy, byName: map[string]*pool{}, requests: map[string]*instance{}, ids: map[named]*instance{},
		demands: map[string]*demand{}, timers: newTimers(),
	}}
	f.volumes = newVolumes(&f.machines, config.Volumes)
	f.config.DeleteRetry = cmp.Or(config.DeleteRetry, defaultDeleteRetry)
	f.config.MissingAfter = cmp.Or(config.MissingAfter, defaultMissingAfter)
	for _, p := range config.Pools {
		if f.byName[p.Name] != nil {
			return nil, fmt.Errorf("there are two pools %q", p.Name)
		}
		if p.Slots < 0 || p.MaxInstances < 0 || p.GroupInstances < 0 || p.MaxUses < 0 || p.MaxComing < 0 || p.Price < 0 || p.SuspendedPrice < 0 || p.Suspend < 0 || config.Volumes.Max < 0 {
			return nil, fmt.Errorf("pool %q has a number below 0", p.Name)
		}
		f.byName[p.Name] = newPool(p)
		f.pools = append(f.pools, f.byName[p.Name])
		f.pools[len(f.pools)-1].join(f.pools)
	}
	// Jobs go to the cheapest slots first.
	slices.SortStableFunc(f.pools, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.Price/float64(a.Slots), b.Price/float64(b.Slots)), cmp.Compare(a.Name, b.Name))
	})
	bit := uint64(1)
	for _, p := range f.pools {
		if !p.Retired {
			p.bit, bit = bit, bit<<1
		}
	}
	return f, nil
}

// Fleet is the machines, the jobs on them and those that wait. See the package.
type Fleet struct {
	machines
	groups  []*group // those with fewer pools first
	classes map[Needs]*group
	asked   uint64 // demands so far
	listing uint64 // lists so far
	stopped bool
}

// Stop says that no machines are to be made any more, as the process ends.
func (f *Fleet) Stop() { f.stopped = true }

// machines knows what every machine does and which jobs are on it, and what is to be done about them. Its methods keep all that is counted and ordered
// true; Fleet decides.
type machines struct {
	config  Config
	policy  Policy
	pools   []*pool // by the price of a slot
	byName  map[string]*pool
	created uint64      // requests so far
	all     []*instance // in no order, but the same one for the same calls

	requests map[string]*instance
	ids      map[named]*instance
	timers   *index
	gone     tombstones
	changes  changes

	demands map[string]*demand // by key
	*volumes
	actions []Action // for the next decision
}

// Errors of jobs.
var (
	// ErrUnfit says that no pool has machines of which a slot is enough.
	ErrUnfit = errors.New("no pool has a machine for this")
	// ErrNoCapacity says that all machines are taken, and no more are allowed.
	ErrNoCapacity = errors.New("all slots are taken, and no more machines are allowed")
	// ErrKnown says that a key is in use with other needs, or has a slot.
	ErrKnown = errors.New("the key is in use")
)

// group is all jobs that the same pools are enough for.
type group struct {
	pools             []*pool // the cheapest slots first
	mask              uint64
	first, last       *demand // those that wait, in the order of their asking
	waiting, reserved int
}

// maxClasses bounds how many different needs are remembered.
const maxClasses = 10_000

// groupOf finds the group of jobs with some needs.
func (f *Fleet) groupOf(n Needs) (*group, error) {
	n = n.class()
	if g := f.classes[n]; g != nil {
		return g, nil
	}
	made := &group{}
	for _, p := range f.pools {
		if p.bit != 0 && p.fits(n) {
			made.pools, made.mask = append(made.pools, p), made.mask|p.bit
		}
	}
	if made.mask == 0 {
		return nil, unfit(f.pools, n)
	}
	if i := slices.IndexFunc(f.groups, func(g *group) bool { return g.mask == made.mask }); i >= 0 {
		made = f.groups[i]
	} else {
		f.groups = append(f.groups, made)
		slices.SortStableFunc(f.groups, func(a, b *group) int {
			return cmp.Compare(bits.OnesCount64(a.mask), bits.OnesCount64(b.mask))
		})
		for _, p := range made.pools {
			p.groups = append(p.groups, made)
		}
	}
	if len(f.classes) >= maxClasses {
		clear(f.classes)
	}
	f.classes[n] = made
	return made, nil
}
