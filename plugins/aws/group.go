package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/sdk/instancegroup"
)

// Group is a group of machines in AWS.
type Group struct {
	Options

	log      instancegroup.Logger
	settings instancegroup.Settings
	api      *api
	source   source
	reach    *reach
	notices  *notices
	disks    *disks
	looking  chan struct{} // holds a token while nobody looks

	mu     sync.Mutex
	seen   map[string]machine // in the last list
	looked time.Time          // when that was begun
}

// source is where the machines of a group come from.
type source interface {
	// open prepares it, and says what it is.
	open(ctx context.Context) (instancegroup.ProviderInfo, error)
	// can says what it does beyond what both sources do.
	can() group.Abilities
	// machines are those that exist.
	machines(ctx context.Context) ([]machine, error)
	// increase and request ask for machines, as Increase and IncreaseShape do.
	increase(ctx context.Context, n int) (int, error)
	request(ctx context.Context, r instancegroup.Request) ([]string, error)
	// remove deletes machines, as Decrease does. seen are those of the last list.
	remove(ctx context.Context, ids []string, seen map[string]machine) ([]string, error)
	// zone is one in which it makes machines.
	zone(ctx context.Context) (string, error)
}

// fresh is how long a list is good enough to say where a machine is.
const fresh = 30 * time.Second

// Init implements instancegroup.Basic.
func (g *Group) Init(ctx context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	if err = g.check(); err != nil {
		return info, err
	}
	g.log, g.settings, g.looking = log, settings, make(chan struct{}, 1)
	g.looking <- struct{}{}
	if g.api, err = openAPI(ctx, g.Options); err != nil {
		return info, err
	}
	if g.reach, err = newReach(g.api, g.Options, settings); err != nil {
		return info, err
	}
	if g.source = newShapes(g); g.Name != "" {
		g.source = newScaling(g)
	}
	if info, err = g.source.open(ctx); err != nil {
		return info, err
	}
	g.notices, g.disks = watchNotices(g), newDisks(g)
	return info, nil
}

// Abilities implements group.Abler.
func (g *Group) Abilities() group.Abilities {
	can := g.source.can()
	can.Details, can.Heartbeat, can.Metrics, can.Volumes = true, true, true, g.NoVolumes() == nil
	return can
}

// OptionsSchema implements instancegroup.Schemer.
func (g *Group) OptionsSchema() string { return optionsSchema }

// List implements instancegroup.Lister.
func (g *Group) List(ctx context.Context, update func(instancegroup.Instance)) error {
	all, err := g.look(ctx)
	for _, m := range all {
		update(m.Instance)
	}
	return err
}

// Update implements instancegroup.Basic.
func (g *Group) Update(ctx context.Context, update func(string, instancegroup.State)) error {
	return g.List(ctx, func(i instancegroup.Instance) { update(i.ID, i.State) })
}

// look asks AWS for the machines. Those who ask at the same time share an answer that nobody had asked for before.
func (g *Group) look(ctx context.Context) (map[string]machine, error) {
	since := time.Now()
	select {
	case <-g.looking:
		defer func() { g.looking <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if seen, looked := g.last(); looked.After(since) {
		return seen, nil
	}
	began := time.Now()
	all, err := g.source.machines(ctx)
	if err != nil {
		return nil, err
	}
	g.notices.mark(ctx, all)
	seen := make(map[string]machine, len(all))
	for _, m := range all {
		seen[m.ID] = m
	}
	g.reach.keep(seen)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.looked = seen, began
	return seen, nil
}

// last is the last list, which nobody may change, and when it was begun.
func (g *Group) last() (map[string]machine, time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen, g.looked
}

// find is a machine as the last list has it if that is good enough, else as AWS has it now.
func (g *Group) find(ctx context.Context, id string, enough func(machine) bool) (machine, error) {
	seen, looked := g.last()
	if m, ok := seen[id]; ok && time.Since(looked) < fresh && enough(m) {
		return m, nil
	}
	seen, err := g.look(ctx)
	if err != nil {
		return machine{}, err
	}
	m, ok := seen[id]
	if !ok || m.State == instancegroup.StateDeleted {
		return machine{}, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no machine " + id}
	}
	return m, nil
}

// Increase implements instancegroup.Basic.
func (g *Group) Increase(ctx context.Context, n int) (int, error) { return g.source.increase(ctx, n) }

// IncreaseShape implements instancegroup.ShapeIncreaser.
func (g *Group) IncreaseShape(ctx context.Context, r instancegroup.Request) ([]string, error) {
	return g.source.request(ctx, r)
}

// Decrease implements instancegroup.Basic.
func (g *Group) Decrease(ctx context.Context, ids []string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	seen, _ := g.last()
	defer g.outdate()
	return g.source.remove(ctx, ids, seen)
}

// outdate has the next look ask AWS: the last list shows machines as they were.
func (g *Group) outdate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looked = time.Time{}
}

// ConnectInfo implements instancegroup.Basic.
func (g *Group) ConnectInfo(ctx context.Context, id string) (instancegroup.ConnectInfo, error) {
	m, err := g.find(ctx, id, func(m machine) bool {
		return m.State == instancegroup.StateRunning && cmp.Or(m.internal, m.external) != ""
	})
	switch {
	case err != nil:
		return instancegroup.ConnectInfo{}, err
	case m.State == instancegroup.StateDeleting:
		return instancegroup.ConnectInfo{}, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the machine %s is being deleted", id)}
	case m.State != instancegroup.StateRunning:
		return instancegroup.ConnectInfo{}, instancegroup.Transient(0, fmt.Errorf("the machine %s is %s", id, m.State))
	case cmp.Or(m.internal, m.external) == "":
		return instancegroup.ConnectInfo{}, instancegroup.Transient(0, fmt.Errorf("the machine %s has no address yet", id))
	}
	return g.reach.info(ctx, m)
}

// Heartbeat implements instancegroup.Heartbeater.
func (g *Group) Heartbeat(ctx context.Context, id string) error {
	m, err := g.find(ctx, id, func(machine) bool { return true })
	if errors.Is(err, instancegroup.ErrNotFound) {
		return err
	}
	if err != nil { // without a kind it would say that the machine is unhealthy
		return instancegroup.Transient(0, err)
	}
	switch m.State {
	case instancegroup.StateCreating, instancegroup.StateRunning:
		if !m.unhealthy {
			return nil
		}
	}
	return &instancegroup.Error{Kind: instancegroup.ErrInstanceUnhealthy, Message: fmt.Sprintf("the machine %s is %s: %s", id, m.State, cmp.Or(m.Reason, "AWS gives no reason"))}
}

// Suspend implements instancegroup.Suspender.
func (g *Group) Suspend(ctx context.Context, ids []string) ([]string, error) {
	if s, ok := g.source.(instancegroup.Suspender); ok {
		defer g.outdate()
		return s.Suspend(ctx, ids)
	}
	return nil, instancegroup.ErrSuspendResumeNotSupported
}

// Resume implements instancegroup.Suspender.
func (g *Group) Resume(ctx context.Context, ids []string) ([]string, error) {
	if s, ok := g.source.(instancegroup.Suspender); ok {
		defer g.outdate()
		return s.Resume(ctx, ids)
	}
	return nil, instancegroup.ErrSuspendResumeNotSupported
}

// Offers implements instancegroup.Offerer.
func (g *Group) Offers(ctx context.Context) ([]instancegroup.Offer, error) {
	if o, ok := g.source.(instancegroup.Offerer); ok {
		return o.Offers(ctx)
	}
	return nil, nil
}

// Metrics implements instancegroup.Meter.
func (g *Group) Metrics(context.Context) ([]instancegroup.Metric, error) {
	return append(g.api.limiter.Metrics(), g.reach.metrics()...), nil
}

// Shutdown implements instancegroup.Shutdowner.
func (g *Group) Shutdown(context.Context) error {
	g.notices.stop()
	return nil
}
