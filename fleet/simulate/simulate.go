// Package simulate runs the decisions of package scale over a load, without machines: what a policy would cost, and how long jobs would wait.
//
// It is a simulation of discrete events. The code that decides is that of production; clouds, jobs and time are made up. The same setup and seed give
// the same result, to the last digit.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Job is a job of a load.
type Job struct {
	At    time.Duration // when it is created, after the start
	Run   time.Duration // how long it takes
	Needs scale.Needs
}

// Pool is machines of a kind, and how their cloud behaves.
type Pool struct {
	scale.Pool
	// BootSpread is the spread of boot times around Pool.BootTime: the standard deviation of their logarithm.
	BootSpread float64
	// CreateFailures and BootFailures are shares of machines: of creates that are refused for want of capacity, and of machines that never become ready.
	CreateFailures, BootFailures float64
	// Interruptions is how often a machine is taken back in an hour, two minutes after a notice.
	Interruptions float64
	// DeleteTime is how long a machine counts after its end was asked for. It is not paid for then.
	DeleteTime time.Duration
	// ResumeTime is how long a suspended machine takes to become ready; 0 is as long as a new one.
	ResumeTime time.Duration
}

// Setup is what a load runs on.
type Setup struct {
	Start time.Time // of the load: policies have periods
	// Length is how long machines are paid for at least; a load that takes longer is simulated to its end, or until none of its jobs has ended for more than a day.
	Length time.Duration
	Pools  []Pool
	Seed   uint64
	// Poll is how often the groups are asked for news: a machine is ready with the next. 0 is two seconds.
	Poll time.Duration
}

// Times that are the same for everybody.
const (
	defaultPoll  = 2 * time.Second
	acceptTime   = time.Second     // until a group has accepted a create
	noticeTime   = 2 * time.Minute // between the notice of an interruption and the machine's end
	listInterval = time.Minute     // between lists of all machines
	maxLength    = 400 * 24 * time.Hour
	stallTime    = 24 * time.Hour // how long no job may end, beyond what one takes, once all are there
	never        = time.Duration(math.MaxInt64)
)

// MaxJobs bounds a load.
const MaxJobs = 5_000_000

// MaxBootTime bounds the boot times of pools.
const MaxBootTime = 24 * time.Hour

// kind is what happens.
type kind uint8

const (
	jobEnds kind = iota
	accepted
	refused
	ready
	neverReady
	noticed
	takenBack
	deleted
	list
	wake
)

// event is something that happens at a time. Events at the same time happen in the order in which they were planned.
type event struct {
	at      time.Duration
	number  uint64
	kind    kind
	job     int
	machine *machine
}

// machine is a machine of the simulated cloud.
type machine struct {
	request string
	pool    *poolState
	began   time.Duration // when it began to cost money
	ended   bool
	asleep  bool
	since   time.Duration // when it fell asleep, if it is
	slept   time.Duration // before that
}

// poolState is a pool, and what it has cost.
type poolState struct {
	Pool
	alive int
	paid  time.Duration
	slept time.Duration
}

// jobState is what became of a job.
type jobState struct {
	key     string // "" while it is not asked for
	tries   int
	running bool
	done    bool
	since   time.Duration // when it began to wait, if it does
	waited  time.Duration // before that: a job whose machine is lost waits again
}

// run is a simulation that runs.
type run struct {
	setup  Setup
	load   []Job
	fleet  *scale.Fleet
	dice   *rand.Rand
	now    time.Duration
	events queue
	number uint64

	pools    map[string]*poolState
	machines map[string]*machine
	all      []*machine // those that exist, and some that existed before the last list
	jobs     []jobState
	outside  map[scale.Needs][]int // jobs that GitLab keeps, as there is no room for them
	waiting  []scale.Needs         // the keys of outside, in the order of their first use
	held     int
	wake     time.Duration

	left, busy int
	queued     int
	last       time.Duration // when a job came or ended
	stall      time.Duration // for how long after that others may
	result     Result
	recorder   recorder
}

// Run simulates a load with a policy, which must be a new one.
func Run(ctx context.Context, setup Setup, load []Job, policy scale.Policy) (*Result, error) {
	r, err := prepare(setup, load, policy)
	if err != nil {
		return nil, err
	}
	r.plan(0, event{kind: wake})
	r.plan(listInterval, event{kind: list})
	next := 0
	for steps := 0; ; steps++ {
		if steps&0xffff == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		at := never
		if next < len(load) {
			at = load[next].At
		}
		if first, ok := r.events.peek(); ok {
			at = min(at, first.at)
		}
		if at > r.end(next) {
			break
		}
		r.advance(at)
		for next < len(load) && load[next].At == at {
			r.arrive(next)
			r.last = at
			next++
		}
		for first, ok := r.events.peek(); ok && first.at == at; first, ok = r.events.peek() {
			r.events.pop()
			r.happen(first)
		}
		r.admit()
		r.decide()
	}
	return r.finish(), nil
}

func prepare(setup Setup, load []Job, policy scale.Policy) (*run, error) {
	if setup.Poll == 0 {
		setup.Poll = defaultPoll
	}
	if len(load) > MaxJobs {
		return nil, fmt.Errorf("the load has more than %d jobs", MaxJobs)
	}
	r := &run{
		setup: setup, load: load, dice: rand.New(rand.NewPCG(setup.Seed, 1)), wake: never, left: len(load), jobs: make([]jobState, len(load)),
		pools: map[string]*poolState{}, machines: map[string]*machine{}, outside: map[scale.Needs][]int{},
	}
	config, boot := scale.Config{Name: "m"}, time.Duration(0)
	for _, p := range setup.Pools {
		if p.Slots = max(1, p.Slots); p.MaxUses > 0 {
			p.Slots = min(p.Slots, p.MaxUses) // as a manager has it: a machine for one job is that job's own
		}
		if p.BootTime <= 0 || p.BootTime > MaxBootTime {
			return nil, fmt.Errorf("the boot time of pool %q must be more than 0 and at most %s", p.Name, MaxBootTime)
		}
		config.Pools = append(config.Pools, p.Pool)
		r.pools[p.Name] = &poolState{Pool: p}
		boot = max(boot, p.BootTime)
	}
	longest := time.Duration(0)
	for i := range load {
		longest = max(longest, load[i].Run)
	}
	r.stall = (stallTime + 2*boot + longest).Round(time.Second)
	var err error
	if r.fleet, err = scale.New(config, policy); err != nil {
		return nil, err
	}
	r.recorder.interval = max(time.Minute, setup.Length/maxPoints)
	r.result.Jobs = len(load)
	return r, nil
}

// end is when the simulation ends: at its length, or after the last job. If none has ended for long, those that are left never will.
func (r *run) end(next int) time.Duration {
	switch most := max(r.setup.Length, maxLength); {
	case next < len(r.load):
		return most
	case r.left > 0:
		return min(most, max(r.setup.Length, r.last+r.stall))
	}
	return max(r.setup.Length, r.now)
}

func (r *run) clock() time.Time { return r.setup.Start.Add(r.now) }

func (r *run) plan(at time.Duration, e event) {
	r.number++
	e.at, e.number = at, r.number
	r.events.push(e)
}

// advance lets time go by.
func (r *run) advance(at time.Duration) {
	r.recorder.until(at, r)
	r.now = at
}

// arrive is a job that is created, or has lost its machine.
func (r *run) arrive(i int) {
	r.jobs[i].since = r.now
	n := r.load[i].Needs
	if _, known := r.outside[n]; !known {
		r.outside[n] = nil
		r.waiting = append(r.waiting, n)
	}
	r.outside[n] = append(r.outside[n], i)
	r.held++
	r.queued++
}

// admit asks for jobs for which there is room, as a manager does: it reserves, gets a job from GitLab, and asks for a slot.
func (r *run) admit() {
	if r.held == 0 {
		return
	}
	now := r.clock()
	for _, n := range r.waiting {
		list := r.outside[n]
		for len(list) > 0 {
			i := list[0]
			job := &r.jobs[i]
			key := strconv.Itoa(i) + "/" + strconv.Itoa(job.tries)
			err := r.fleet.Reserve(now, key, n)
			if errors.Is(err, scale.ErrNoCapacity) {
				break
			}
			list = list[1:]
			r.held--
			if err != nil {
				r.refuse(i)
				continue
			}
			job.key = key
			if err := r.fleet.Ask(now, key, n); err != nil {
				r.refuse(i)
			}
		}
		r.outside[n] = list
	}
}

func (r *run) refuse(i int) {
	r.jobs[i].done = true
	r.left--
	r.queued--
	r.result.Refused++
}

// decide lets the fleet decide, and begins what it wants.
func (r *run) decide() {
	d := r.fleet.Decide(r.clock())
	for _, a := range d.Actions {
		r.carryOut(a)
	}
	if d.Wake.IsZero() {
		return
	}
	if at := max(d.Wake.Sub(r.setup.Start), r.now+1); at < r.wake || r.wake <= r.now {
		r.wake = at
		r.plan(at, event{kind: wake})
	}
}

func (r *run) carryOut(a scale.Action) {
	switch a.Kind {
	case scale.Create:
		r.create(a)
	case scale.Delete:
		r.remove(a)
	case scale.Suspend:
		r.suspend(a)
	case scale.Resume:
		r.resume(a)
	case scale.Place:
		i := jobOf(a.Key)
		job := &r.jobs[i]
		job.running = true
		r.busy++
		r.queued--
		job.waited += r.now - job.since
		r.plan(r.now+r.load[i].Run, event{kind: jobEnds, job: i, machine: r.machines[a.Request]})
	case scale.End:
		i := jobOf(a.Key)
		r.jobs[i].running = false
		r.jobs[i].tries++
		r.busy--
		r.result.Lost++
		r.arrive(i) // it is run again
	}
}

// jobOf is the number of the job with a key.
func jobOf(key string) int {
	n := 0
	for i := 0; i < len(key) && key[i] != '/'; i++ {
		n = n*10 + int(key[i]-'0')
	}
	return n
}
