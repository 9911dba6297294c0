package fake

import (
	"context"
	"maps"
	"time"

	"github.com/rungci/rung/fleet/group"
)

// Machine is a machine as it is, whatever lists say.
type Machine struct {
	group.Instance
	Number int
	// Exists says that it is there, and costs money.
	Exists bool
}

// Machines are all that were ever made, in that order.
func (g *Group) Machines() (out []Machine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.cloud.Machines {
		now, _ := m.at(g.o.Clock.Now())
		out = append(out, Machine{Instance: m.instance(now), Number: m.Number, Exists: now.exists()})
	}
	return out
}

// Add puts a machine there that the group has not made, with labels, and returns its id.
func (g *Group) Add(labels map[string]string) (id string) {
	_ = g.locked(func() error {
		id = g.make(group.Request{Labels: labels})
		return nil
	})
	return id
}

// Set changes what a machine is from now on, for good if nothing deletes it: any state, back or forth.
func (g *Group) Set(id string, state group.State, reason string) {
	g.change(id, func(change) change { return change{State: state, Reason: reason} })
}

// Vanish takes a machine away without a word, as somebody else may.
func (g *Group) Vanish(id string) { g.Set(id, nowhere, "") }

// Interrupt gives notice that a machine will be taken away, and takes it away.
func (g *Group) Interrupt(id string, notice time.Duration, reason string) {
	at := g.o.Clock.Now().Add(notice)
	g.change(id, func(now change) change {
		return change{State: now.State, Interruption: &group.Interruption{At: at, Reason: reason}}
	}, change{At: at, State: nowhere})
}

// change changes a machine now, and as planned.
func (g *Group) change(id string, to func(now change) change, later ...change) {
	_ = g.locked(func() error {
		at := g.o.Clock.Now()
		m, now, err := g.cloud.existing(id, at)
		if err != nil {
			return err
		}
		next := to(now)
		next.At = at
		m.become(append([]change{next}, later...)...)
		return nil
	})
}

func (m *machine) instance(now change) group.Instance {
	state := now.State
	if state == nowhere {
		state = group.StateDeleted
	}
	return group.Instance{
		ID: m.ID, State: state, Reason: now.Reason, Shape: m.Shape, Zone: m.Zone, Spot: m.Spot, Labels: maps.Clone(m.Labels), Request: m.Request, Created: m.Made,
		Interruption: now.Interruption,
	}
}

// listed are the machines that a list shows at a time, with those that are deleted or without.
func (c *cloud) listed(at time.Time, deleted bool) (out []group.Instance) {
	for _, m := range c.Machines {
		now, ok := m.at(at)
		if ok && now.State != nowhere && (now.State != group.StateDeleted || deleted) {
			out = append(out, m.instance(now))
		}
	}
	return out
}

// Update implements group.Basic.
func (g *Group) Update(ctx context.Context, update func(string, group.State)) error {
	return g.list(ctx, "Update", func(i group.Instance) { update(i.ID, i.State) })
}

// List implements group.Lister.
func (g *Group) List(ctx context.Context, update func(group.Instance)) error {
	return g.list(ctx, "List", update)
}

func (g *Group) list(ctx context.Context, name string, update func(group.Instance)) error {
	var all []group.Instance
	err := g.call(ctx, Call{Name: name}, func() error {
		all = g.cloud.listed(g.o.Clock.Now().Add(-g.o.Lag), g.o.KeepDeleted)
		return nil
	})
	for i, instance := range all {
		if g.o.Page > 0 && i%g.o.Page == 0 && err == nil {
			if i > 0 {
				err = g.call(ctx, Call{Name: "page"}, nil)
			}
			if err == nil {
				err = sleep(ctx, g.o.Clock, g.o.PageTime)
			}
		}
		if err != nil {
			return err
		}
		update(instance)
	}
	return err
}

// Watch implements group.Watcher.
func (g *Group) Watch(ctx context.Context, update func(group.Instance)) error {
	if err := g.call(ctx, Call{Name: "Watch"}, nil); err != nil {
		return err
	}
	told := map[string]int{} // how many changes of each machine were told
	for {
		g.mu.Lock()
		now := g.o.Clock.Now()
		changed := g.changed
		var news []group.Instance
		next := time.Time{}
		for _, m := range g.cloud.Machines {
			done := 0
			for _, c := range m.Changes {
				if c.At.After(now) {
					if next.IsZero() || c.At.Before(next) {
						next = c.At
					}
					break
				}
				done++
			}
			if is, _ := m.at(now); done != told[m.ID] && (told[m.ID] > 0 || is.exists()) {
				news = append(news, m.instance(is))
			}
			told[m.ID] = done
		}
		g.mu.Unlock()
		for _, instance := range news {
			update(instance)
		}
		var later <-chan time.Time
		if !next.IsZero() {
			later = g.o.Clock.After(next.Sub(now))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-later:
		}
	}
}
