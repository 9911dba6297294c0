package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// cloud is a group with its pools.
type cloud struct {
	f       *Fleet
	group   *group.Group
	pools   []string
	options map[string]Pool // by pool
	counts  bool            // the group does not know requests again

	creates, deletes chan struct{} // limit the calls at once
	stuck            stuck         // calls
	listSoon         chan struct{}

	// These are the Fleet's lock's.
	listed   time.Time
	listErr  error
	missing  bool // a machine is not in the last list
	checkOK  time.Time
	failures int // lists in a row
}

// Limits of the calls of one group.
const (
	maxCreates  = 32 // at once
	maxDeletes  = 4  // at once, each of maxBatch machines
	maxBatch    = 50
	maxStuck    = 100              // that were given up, and have not returned
	maxHung     = 3                // the same, to one machine
	uncertain   = 2 * time.Minute  // how far lists may be behind, where only they can say whether there is a machine
	minLooks    = 3                // lists in that time
	listBackoff = 30 * time.Second // the longest pause after lists that failed
)

var errTimeout = errors.New("it has not answered in time")

// stuck is how many calls were given up, and have not returned.
type stuck struct{ atomic.Int32 }

// addCloud finds the cloud of a pool's group, or adds one.
func (f *Fleet) addCloud(name string, p Pool) {
	i := slices.IndexFunc(f.clouds, func(c *cloud) bool { return c.group == p.Group })
	if i < 0 {
		i = len(f.clouds)
		f.clouds = append(f.clouds, &cloud{
			f: f, group: p.Group, counts: !p.Group.Can().Requests, options: map[string]Pool{},
			creates: make(chan struct{}, maxCreates), deletes: make(chan struct{}, maxDeletes), listSoon: make(chan struct{}, 1),
		})
	}
	f.clouds[i].pools = append(f.clouds[i].pools, name)
	f.clouds[i].options[name] = p
}

// cloudOf is the cloud of a pool. One that nothing is known of is of the only cloud; nil if there are several, or if the pool has none.
func (f *book) cloudOf(pool string) *cloud {
	if i := slices.IndexFunc(f.clouds, func(c *cloud) bool { return slices.Contains(c.pools, pool) }); i >= 0 {
		return f.clouds[i]
	}
	if len(f.clouds) == 1 && !f.pools[pool].Retired {
		return f.clouds[0]
	}
	return nil
}

// result is that of a call.
type result[T any] struct {
	value T
	err   error
}

// call makes a call of a group, and gives it up when it takes too long or its time is over: whether it returns or not.
func call[T any](ctx context.Context, c *cloud, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	if c.stuck.Load() >= maxStuck {
		var none T
		return none, &group.Error{Kind: group.ErrTransient, Message: fmt.Sprintf("%d calls of the group have not returned; nothing is asked of it until some have", maxStuck)}
	}
	began := c.f.clock.Now()
	value, err := limited(ctx, c.f, &c.stuck, limit, do)
	if errors.Is(err, errTimeout) {
		err = c.group.Silent(c.f.clock.Now().Sub(began), err)
	}
	return value, err
}

// visit does something on a machine, and gives it up as call does. A machine that hangs takes nothing from its group, and from the others.
func (f *Fleet) visit(ctx context.Context, m *machine, limit time.Duration, do func(context.Context) error) error {
	if m.stuck.Load() >= maxHung {
		return fmt.Errorf("%d attempts have not returned; nothing more is asked of the machine until one has", maxHung)
	}
	_, err := limited(ctx, f, &m.stuck, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// limited makes a call, and counts it as long as it has been given up and has not returned.
func limited[T any](ctx context.Context, f *Fleet, given *stuck, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began, done := f.clock.Now(), make(chan result[T], 1)
	go func() {
		var r result[T]
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("internal error: it panicked: %v", p)
			}
			done <- r
		}()
		r.value, r.err = do(ctx)
	}()
	giveUp := func(err error) (T, error) {
		cancel(err)
		given.Add(1)
		go func() {
			<-done
			given.Add(-1)
		}()
		var none T
		return none, err
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-f.clock.After(limit):
		return giveUp(fmt.Errorf("%w: %s", errTimeout, limit))
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = fmt.Errorf("%w: %s", errTimeout, f.clock.Now().Sub(began).Round(time.Millisecond))
		}
		return giveUp(cause)
	}
}

// create asks for a machine, unless that is under way. The caller holds the lock.
func (c *cloud) create(m *machine) {
	if m.creating || m.rec.State != scale.Requested {
		return
	}
	if c.counts && m.asked { // asking a second time could make a second machine
		c.look(m)
		return
	}
	m.creating = true
	pool, request := m.rec.Pool, m.request
	c.f.launch(func() {
		entered := c.enter(c.creates)
		c.f.mu.Lock()
		wanted := entered && m.rec.State == scale.Requested
		m.asked = m.asked || wanted
		m.creating = wanted
		c.f.mu.Unlock()
		if entered {
			defer func() { <-c.creates }()
		}
		if !wanted {
			return
		}
		p := c.options[pool]
		made, err := call(c.f.calls, c, c.f.o.CallTimeout, func(ctx context.Context) (group.Created, error) {
			return c.group.Create(ctx, group.Request{ID: request, Count: 1, Shape: p.Shape, Zone: p.Zone, Spot: p.Spot, Labels: p.Labels})
		})
		c.created(m, made, err)
	})
}

// enter waits for a place among calls. It is false when the fleet closes.
func (c *cloud) enter(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-c.f.calls.Done():
		return false
	}
}

// created tells the answer to a create.
func (c *cloud) created(m *machine, made group.Created, err error) {
	request := m.request
	c.f.tell(func(now time.Time) {
		m.creating = false
		for _, id := range made.Instances {
			c.f.scale.Created(now, request, id)
		}
		switch {
		case len(made.Instances) > 0:
		case made.Count > 0:
			c.f.scale.Created(now, request, "")
		case err == nil:
			c.f.scale.CreateFailed(now, request, scale.Failure{Kind: scale.Transient, Err: errors.New("the group has made no machine, and does not say why")})
		case c.counts && certain(err):
			failure := failureOf(err)
			if failure.Kind == scale.Unknown {
				failure.Kind = scale.Transient
			}
			c.f.scale.CreateFailed(now, request, failure)
		default:
			c.f.scale.CreateFailed(now, request, failureOf(err))
		}
		if made.Count == 0 && c.counts && !certain(err) {
			c.look(m)
		}
		c.note(now, m.rec, "it could not be created", err)
	})
	c.soon()
}

// certain reports whether a group that counts has made nothing, when it says so with this error.
func certain(err error) bool {
	return !errors.Is(err, group.ErrUncertain) && !errors.Is(err, errTimeout) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// note records that a call about a machine failed. The caller holds the lock.
func (c *cloud) note(now time.Time, rec scale.InstanceRecord, what string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	e := c.f.entry(now, store.Failed, rec)
	e.Why = what + ": " + err.Error()
	c.f.entries = append(c.f.entries, e)
	c.f.log.Warn(e.Why, "pool", rec.Pool, "request", rec.Request, "instance", rec.Instance)
}

// failureOf is an error of a group for the decision.
func failureOf(err error) scale.Failure {
	e := scale.Failure{Err: err}
	switch e.After, _ = group.RetryAfter(err); {
	case errors.Is(err, group.ErrUncertain):
	case errors.Is(err, group.ErrQuota):
		e.Kind = scale.Quota
	case errors.Is(err, group.ErrNotFound):
		e.Kind = scale.NotFound
	case errors.Is(err, group.ErrUnauthorised), errors.Is(err, group.ErrUnsupported):
		e.Kind = scale.Unauthorized
	case errors.Is(err, group.ErrTransient):
		e.Kind = scale.Transient
	}
	return e
}

// end asks for the end of machines. The caller holds the lock.
func (c *cloud) end(requests []string) {
	byID := map[string]*machine{}
	var ids []string
	for _, request := range requests {
		m := c.f.machines[request]
		switch {
		case m == nil || m.deleting || m.creating || m.rec.State != scale.Deleting:
		case m.rec.Instance != "":
			m.deleting = true
			byID[m.rec.Instance] = m
			ids = append(ids, m.rec.Instance)
		case m.asked:
			c.look(m)
		default: // nobody was asked for it
			c.f.scale.Deleted(c.f.clock.Now(), request, true)
		}
	}
	c.f.follow(c.f.clock.Now())
	for batch := range slices.Chunk(ids, maxBatch) {
		c.f.launch(func() { c.delete(batch, byID) })
	}
}

// delete makes one call, and tells its answer.
func (c *cloud) delete(ids []string, byID map[string]*machine) {
	var done []string
	err := context.Canceled
	if c.enter(c.deletes) {
		done, err = call(c.f.calls, c, c.f.o.CallTimeout, func(ctx context.Context) ([]string, error) { return c.group.Delete(ctx, ids) })
		<-c.deletes
	}
	of := errorsOf(err, ids)
	c.f.tell(func(now time.Time) {
		for _, id := range ids {
			m := byID[id]
			m.deleting = false
			switch {
			case slices.Contains(done, id):
				c.f.scale.Deleted(now, m.rec.Request, false)
			case err == nil:
				c.f.scale.DeleteFailed(now, m.rec.Request, scale.Failure{Err: errors.New("the group did not delete it, and does not say why")})
			default:
				failure := failureOf(err)
				if len(ids) > 1 && failure.Kind == scale.NotFound {
					failure.Kind = scale.Unknown // which of them was not found is not known
				}
				c.f.scale.DeleteFailed(now, m.rec.Request, failure)
				c.noteDelete(now, m, of[id])
			}
		}
	})
	c.soon()
}

// noteDelete records that a machine could not be deleted. The same error is recorded again after two attempts, after four, after eight. The caller holds the lock.
func (c *cloud) noteDelete(now time.Time, m *machine, err error) {
	if textOf(m.deleteErr) != err.Error() {
		m.deleteErr, m.deleteTries = err, 0
	}
	what := "it could not be deleted"
	if m.deleteTries++; m.deleteTries > 1 {
		what += fmt.Sprintf(" %d times in a row", m.deleteTries)
	}
	if m.deleteTries&(m.deleteTries-1) == 0 {
		c.note(now, m.rec, what, err)
	}
}

// errorsOf is what an error of a call about several machines says of each: the lines that name it, and those that name none of them.
func errorsOf(err error, ids []string) map[string]error {
	if err == nil {
		return nil
	}
	lines, of := strings.Split(err.Error(), "\n"), map[string][]string{}
	for _, line := range lines {
		about := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !names(line, id) })
		if len(about) == 0 {
			about = ids
		}
		for _, id := range about {
			of[id] = append(of[id], line)
		}
	}
	all := map[string]error{}
	for _, id := range ids {
		if all[id] = err; len(of[id]) > 0 && len(of[id]) < len(lines) {
			all[id] = errors.New(strings.Join(of[id], "\n"))
		}
	}
	return all
}

// names reports whether a line has an id, and not as a part of another one.
func names(line, id string) bool {
	if id == "" {
		return false
	}
	part := func(r byte) bool {
		return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(line[from:], id)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(id)
		if (begin == 0 || !part(line[begin-1])) && (end == len(line) || !part(line[end])) {
			return true
		}
		from = begin + 1
	}
}

// power suspends or resumes a machine, as the decision has it, unless that is under way. The caller holds the lock.
func (c *cloud) power(m *machine) {
	if c == nil || m.powering || m.rec.Instance == "" {
		return
	}
	state, id, do, what := m.rec.State, m.rec.Instance, c.group.Resume, "it could not be resumed"
	if state == scale.Suspended {
		do, what = c.group.Suspend, "it could not be suspended"
	}
	m.powering = true
	c.f.launch(func() {
		var done []string
		err := context.Canceled
		if c.enter(c.creates) {
			done, err = call(c.f.calls, c, c.f.o.CallTimeout, func(ctx context.Context) ([]string, error) { return do(ctx, []string{id}) })
			<-c.creates
		}
		c.f.tell(func(now time.Time) {
			m.powering = false
			c.note(now, m.rec, what, err)
			// A list says what has become of a resume that has no answer. A suspend that has none could still happen to a job.
			lost := state == scale.Suspended && c.f.calls.Err() == nil || err == nil || certain(err)
			if len(done) == 0 && m.rec.State == state && lost {
				c.f.scale.Failed(now, m.request, what)
			}
		})
		c.soon()
	})
}
