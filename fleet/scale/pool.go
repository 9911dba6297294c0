package scale

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// pool is a Pool with its machines.
type pool struct {
	Pool
	bit    uint64   // 0: it is retired
	groups []*group // that it is enough for

	count        [states]int
	busy         int // slots with jobs
	drainingBusy int // those of them on machines that take no more
	free         int // slots that a job can have now
	open         []*index
	idle         *index

	bucket  bucket
	backoff backoff
	boots   average
	runs    average // how long jobs take
	load    Load

	quota *quota // nil: its group has no limit

	waiting int // jobs for which this pool is the one to grow; set by each decision
	last    decided
	listErr string // why the last list failed
}

// named is an instance by its id in a group.
type named struct{ group, id string }

func (p *pool) named(id string) named { return named{p.Group, id} }

func newPool(of Pool) *pool {
	of.Slots = cmp.Or(of.Slots, 1)
	of.Volumes = of.Volumes && (of.Apart || of.Slots == 1)
	of.BootTimeout = cmp.Or(of.BootTimeout, defaultBootTimeout)
	p := &pool{Pool: of, idle: newIdle(), open: make([]*index, of.Slots)}
	for i := range p.open {
		p.open[i] = newOpen()
	}
	p.boots.set(cmp.Or(of.BootTime, defaultBootTime))
	limit := cmp.Or(of.Throttle.Limit, defaultThrottle)
	p.bucket = bucket{rate: limit, size: float64(cmp.Or(of.Throttle.Burst, of.MaxInstances, int(math.Ceil(limit)), 1))}
	return p
}

// instances is how many machines there are, in every state.
func (p *pool) instances() int {
	n := 0
	for s := Requested; s < Gone; s++ {
		n += p.count[s]
	}
	return n
}

// room is how many machines the limit allows beside those that exist.
func (p *pool) room() int {
	if p.MaxInstances == 0 {
		return math.MaxInt32
	}
	return max(0, p.MaxInstances-p.instances())
}

// limit says what keeps the pool from growing by more than a number of machines; empty if nothing does.
func (p *pool) limit(now time.Time, n int) string {
	switch {
	case p.backoff.blocked(now):
		return "no machines are asked for until " + p.backoff.until.UTC().Format(time.TimeOnly) + ": " + p.backoff.why
	case p.quota != nil && p.quota.left() < min(n, p.room()):
		return "its group has " + ofIts(p.quota.left(), p.quota.most)
	case p.room() < n:
		return "the pool has " + ofIts(p.room(), p.MaxInstances)
	}
	return ""
}

// ofIts says how many machines there can still be, of those that a limit allows.
func ofIts(left, most int) string {
	if left > 0 {
		return fmt.Sprintf("room for %d more of its %s", left, count(most, "machine"))
	}
	return "its " + count(most, "machine")
}

// able is how many of n machines the pool can ask for now, whatever else its group has. If something but its number of machines and a pause keeps it from more, limit is that.
func (p *pool) able(now time.Time, n int) (able int, limit string) {
	if p.backoff.blocked(now) {
		return 0, ""
	}
	able = min(n, p.room())
	if p.MaxComing > 0 && able > p.MaxComing-p.arriving() {
		able, limit = max(0, p.MaxComing-p.arriving()), "no more than "+count(p.MaxComing, "machine")+" may be on the way at once"
	}
	if p.backoff.hopeless() {
		able, limit = max(0, min(able, 1-p.arriving())), "one machine at a time is tried: "+p.backoff.why
	}
	if ready := p.bucket.ready(now); ready < able {
		able, limit = ready, fmt.Sprintf("no more than %g machines a second are asked for", p.bucket.rate)
	}
	return able, limit
}

// arriving is how many machines are on their way, and coming how many slots.
func (p *pool) arriving() int { return p.count[Requested] + p.count[Creating] }

func (p *pool) coming() int { return p.arriving() * p.Slots }

// openInstance is the machine that the next job gets: the fullest, so that others can go.
func (p *pool) openInstance() *instance {
	for used := p.Slots - 1; used >= 0; used-- {
		if m := p.open[used].first(); m != nil {
			return m
		}
	}
	return nil
}

// bucket lets things happen at a rate. It is full at first.
type bucket struct {
	rate, size float64 // a negative rate is no limit
	tokens     float64
	at         time.Time
}

// ready is how many may happen now.
func (b *bucket) ready(now time.Time) int {
	switch {
	case b.rate < 0:
		return math.MaxInt32
	case b.at.IsZero():
		b.tokens = b.size
	default:
		b.tokens = min(b.size, b.tokens+b.rate*max(0, now.Sub(b.at).Seconds()))
	}
	if b.at.Before(now) {
		b.at = now
	}
	return int(b.tokens + 1e-9)
}

// take is called after ready.
func (b *bucket) take(n int) { b.tokens -= float64(n) }

// next is when one more may happen.
func (b *bucket) next() time.Time {
	if b.rate <= 0 {
		return time.Time{}
	}
	return b.at.Add(time.Duration(math.Ceil(max(0, 1-b.tokens) / b.rate * float64(time.Second))))
}

// Pauses after failed creates: the first, and the longest of each kind.
const (
	firstPause    = 5 * time.Second
	longestPause  = 5 * time.Minute
	quotaPause    = time.Minute
	quotaLongest  = 15 * time.Minute
	maxDoublings  = 10
	refusedPause  = 5 * time.Minute
	refusedLonger = 30 * time.Minute
)

// backoff keeps a pool from growing for a while after failures: of creates until one succeeds, of machines that are made and useless until one is ready.
type backoff struct {
	failures int
	until    time.Time
	why      string
	refused  bool // the group has said that it gives no machine; else it has not answered, or not well
	useless  bool // a machine was made and never became ready: to make others proves nothing
}

// failed notes a failure. Those that were asked for before the pause began do not lengthen it.
func (b *backoff) failed(now time.Time, e Failure) {
	first, longest := firstPause, longestPause
	switch e.Kind {
	case Quota:
		first, longest = quotaPause, quotaLongest
	case Unauthorized, NotFound:
		first, longest = refusedPause, refusedLonger
	}
	if !now.Before(b.until) {
		b.failures++
	}
	pause := min(longest, first<<min(b.failures-1, maxDoublings))
	if until := now.Add(max(pause, e.After)); until.After(b.until) {
		b.until = until
	}
	b.why, b.refused = e.Error(), e.Kind != Unknown && e.Kind != Transient
}

// wasted notes a machine that was paid for and never became ready.
func (b *backoff) wasted(now time.Time, why string) {
	b.failed(now, Failure{Err: errors.New(why)})
	b.useless = true
}

// hopeless reports whether what is made has been useless for several times in a row, so that to make several at once is a waste.
func (b *backoff) hopeless() bool { return b.useless && b.failures >= 3 }

// made notes that a machine was made.
func (b *backoff) made() {
	if !b.useless {
		b.succeeded()
	}
}

// succeeded notes that a machine is ready.
func (b *backoff) succeeded() { *b = backoff{} }

func (b *backoff) blocked(now time.Time) bool { return now.Before(b.until) }

// next says when machines are asked for again.
func (b *backoff) next() string {
	return "; the next attempt is at " + b.until.UTC().Format(time.TimeOnly)
}

// failing says why machines that are asked for again and again do not exist yet; empty if no attempt has failed.
func (p *pool) failing() string {
	if p.count[Requested] == 0 || p.backoff.failures == 0 || p.last.limit != "" {
		return ""
	}
	return "the last attempt to make one has failed: " + p.backoff.why + p.backoff.next()
}

// average follows durations; the newest counts a tenth.
type average struct{ value float64 }

func (a *average) set(d time.Duration) { a.value = float64(d) }

func (a *average) add(d time.Duration) {
	if a.value == 0 {
		a.set(d)
	}
	a.value += (float64(d) - a.value) / 10
}

func (a *average) get() time.Duration { return time.Duration(a.value) }
