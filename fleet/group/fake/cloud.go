package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rungci/rung/fleet/group"
)

// cloud is all that there is.
type cloud struct {
	Machines    []*machine
	Volumes     []*volume
	VolumesMade int
	Requests    map[string][]string // the ids of all machines that were ever made for a request
}

// machine is one machine, from when it is asked for until for good.
type machine struct {
	ID                   string
	Number               int
	Request, Shape, Zone string
	Spot                 bool
	Labels               map[string]string
	Made, Unhealthy      time.Time
	Deleting             time.Duration
	Undeletable          int
	// Changes are in the order of their times. Those to come are planned, and dropped when a call changes the machine.
	Changes []change
}

// change is what a machine is from a time on.
type change struct {
	At           time.Time
	State        group.State // nowhere: it is not listed
	Reason       string
	Interruption *group.Interruption
}

const nowhere group.State = ""

// at is what a machine is at a time; ok is false before it was made.
func (m *machine) at(t time.Time) (now change, ok bool) {
	for _, c := range m.Changes {
		if c.At.After(t) {
			break
		}
		now, ok = c, true
	}
	return now, ok
}

// become changes a machine at a time, and drops what was planned for later.
func (m *machine) become(changes ...change) {
	m.Changes = slices.DeleteFunc(m.Changes, func(c change) bool { return c.At.After(changes[0].At) })
	m.Changes = append(m.Changes, changes...)
}

// exists reports whether a machine is there, and costs money.
func (c change) exists() bool { return c.State != nowhere && c.State.Exists() }

// existing is a machine that is there at a time.
func (c *cloud) existing(id string, at time.Time) (*machine, change, error) {
	for _, m := range c.Machines {
		if now, ok := m.at(at); m.ID == id && ok && now.exists() {
			return m, now, nil
		}
	}
	return nil, change{}, &group.Error{Kind: group.ErrNotFound, Message: "there is no machine " + id}
}

// make makes one machine.
func (g *Group) make(r group.Request) string {
	n := len(g.cloud.Machines)
	var fate Fate
	if g.o.Machine != nil {
		fate = g.o.Machine(n)
	}
	now := g.o.Clock.Now()
	m := &machine{
		ID: fmt.Sprintf("fake-%d", n), Number: n, Request: r.ID, Shape: r.Shape, Zone: r.Zone, Spot: r.Spot, Labels: maps.Clone(r.Labels),
		Made: now, Deleting: cmp.Or(fate.Deleting, g.o.Deleting), Undeletable: fate.Undeletable, Changes: fate.changes(now, cmp.Or(fate.Boot, g.o.Boot)),
	}
	if fate.Unhealthy > 0 {
		m.Unhealthy = now.Add(fate.Unhealthy)
	}
	g.cloud.Machines = append(g.cloud.Machines, m)
	if r.ID != "" {
		g.cloud.Requests[r.ID] = append(g.cloud.Requests[r.ID], m.ID)
	}
	return m.ID
}

// changes are what becomes of a machine that nobody touches.
func (f Fate) changes(made time.Time, boot time.Duration) []change {
	out := []change{{At: made, State: group.StateCreating}}
	if !f.Stuck {
		out = append(out, change{At: made.Add(boot), State: group.StateRunning})
	}
	if f.Back > 0 {
		out = append(out, change{At: made.Add(f.Back), State: group.StateCreating})
	}
	if f.Interrupted > 0 {
		gone := made.Add(f.Interrupted + f.Notice)
		out = append(out, change{At: made.Add(f.Interrupted), State: group.StateRunning, Interruption: &group.Interruption{At: gone, Reason: "the capacity is needed elsewhere"}},
			change{At: gone, State: nowhere})
	}
	if f.Fails > 0 {
		out = append(out, change{At: made.Add(f.Fails), State: group.StateFailed, Reason: cmp.Or(f.Reason, "it has failed")})
	}
	if f.Vanishes > 0 {
		out = append(out, change{At: made.Add(f.Vanishes), State: nowhere})
	}
	slices.SortStableFunc(out, func(a, b change) int { return a.At.Compare(b.At) })
	for i, c := range out { // nothing comes after the end
		if c.State == nowhere || c.State == group.StateFailed {
			return out[:i+1]
		}
	}
	return out
}

// room is an error when one more machine is too many.
func (c *cloud) room(quota int, at time.Time) error {
	there := 0
	for _, m := range c.Machines {
		if now, ok := m.at(at); ok && now.exists() {
			there++
		}
	}
	if there >= quota {
		return &group.Error{Kind: group.ErrQuota, Message: fmt.Sprintf("there are %d machines of at most %d", there, quota)}
	}
	return nil
}

// Increase implements group.Basic.
func (g *Group) Increase(ctx context.Context, n int) (succeeded int, err error) {
	err = g.call(ctx, Call{Name: "Increase", Count: n}, func() error {
		labels := map[string]string{}
		if g.settings.Owner != "" {
			labels[group.OwnerLabel] = g.settings.Owner
		}
		for range n + g.o.Surplus {
			if err := g.cloud.room(g.o.Quota, g.o.Clock.Now()); err != nil {
				return err
			}
			g.make(group.Request{Labels: labels})
			succeeded++
		}
		return nil
	})
	return succeeded, err
}

// IncreaseShape implements group.ShapeIncreaser.
func (g *Group) IncreaseShape(ctx context.Context, r group.Request) (ids []string, err error) {
	err = g.call(ctx, Call{Name: "IncreaseShape", Count: r.Count}, func() error {
		if r.Shape != "" && !slices.ContainsFunc(g.o.Offers, func(o group.Offer) bool { return o.Shape == r.Shape }) {
			return &group.Error{Kind: group.ErrNotFound, Message: "there is no shape " + r.Shape}
		}
		want := r.Count + g.o.Surplus
		var err error
		for err == nil && len(g.cloud.Requests[r.ID]) < want {
			if err = g.cloud.room(g.o.Quota, g.o.Clock.Now()); err == nil {
				g.make(r)
			}
		}
		ids = slices.Clone(g.cloud.Requests[r.ID])
		return err
	})
	return ids, err
}

// Decrease implements group.Basic.
func (g *Group) Decrease(ctx context.Context, instances []string) (succeeded []string, err error) {
	err = g.call(ctx, Call{Name: "Decrease", Instances: instances}, func() error {
		now := g.o.Clock.Now()
		var failed []string
		for _, id := range instances {
			m, is, err := g.cloud.existing(id, now)
			switch {
			case err != nil || is.State == group.StateDeleting: // deleted already
			case m.Undeletable > 0:
				m.Undeletable--
				failed = append(failed, id)
				continue
			default:
				m.become(change{At: now, State: group.StateDeleting}, change{At: now.Add(m.Deleting), State: group.StateDeleted})
			}
			succeeded = append(succeeded, id)
		}
		if failed != nil {
			return fmt.Errorf("deleting %v: the cloud has an internal error", failed)
		}
		return nil
	})
	return succeeded, err
}

// Suspend implements group.Suspender.
func (g *Group) Suspend(ctx context.Context, instances []string) ([]string, error) {
	return g.pass(ctx, "Suspend", instances, group.StateRunning, group.StateSuspending, group.StateSuspended, g.o.Suspending)
}

// Resume implements group.Suspender.
func (g *Group) Resume(ctx context.Context, instances []string) ([]string, error) {
	return g.pass(ctx, "Resume", instances, group.StateSuspended, group.StateCreating, group.StateRunning, g.o.Boot)
}

// pass brings machines from one state to another, by one between them.
func (g *Group) pass(ctx context.Context, name string, instances []string, from, by, to group.State, takes time.Duration) (succeeded []string, err error) {
	err = g.call(ctx, Call{Name: name, Instances: instances}, func() error {
		now := g.o.Clock.Now()
		for _, id := range instances {
			m, is, err := g.cloud.existing(id, now)
			if err != nil {
				return err
			}
			if is.State != from && is.State != by && is.State != to {
				return fmt.Errorf("the machine %s is %s", id, is.State)
			}
			if is.State == from {
				m.become(change{At: now, State: by}, change{At: now.Add(takes), State: to})
			}
			succeeded = append(succeeded, id)
		}
		return nil
	})
	return succeeded, err
}
