package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Group is one view of a group, whatever it implements. What a group says is checked here, so that callers can believe it: an instance is of this owner, its state only goes
// forward, and what was not asked for is not in an answer. Its methods are safe for concurrent use, and all but Init are called after that.
type Group struct {
	basic Basic
	log   hclog.Logger

	mu       sync.Mutex
	info     ProviderInfo
	settings Settings
	can      Abilities
	opened   bool
	requests requests
	seen     seen

	shutdown sync.Once
	ended    error
}

// Adapt makes a Group of one that implements Basic, and whatever else of this package.
func Adapt(b Basic) *Group {
	return &Group{basic: b, log: hclog.NewNullLogger(), requests: requests{known: map[string]*request{}}, seen: seen{last: map[string]*sight{}}}
}

// Init is Basic's. It is called once.
func (g *Group) Init(ctx context.Context, log hclog.Logger, settings Settings) (ProviderInfo, error) {
	if log == nil {
		log = g.log // which takes nothing
	}
	g.mu.Lock()
	again := g.opened
	g.opened = true
	g.mu.Unlock()
	if again {
		return ProviderInfo{}, errors.New("the group was initialised already")
	}
	info, err := g.basic.Init(ctx, log, settings)
	if err == nil && info.MaxSize < 0 {
		err = fmt.Errorf("the group %q says that it can have %d instances", info.ID, info.MaxSize)
	}
	if err != nil {
		return ProviderInfo{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log, g.info, g.settings, g.can = log, info, settings, AbilitiesOf(g.basic, info)
	return info, nil
}

// AbilitiesOf are those of a group that has said what it is.
func AbilitiesOf(b Basic, info ProviderInfo) (can Abilities) {
	if a, ok := b.(Abler); ok {
		return a.Abilities()
	}
	_, can.Details = b.(Lister)
	_, can.Watch = b.(Watcher)
	_, can.Offers = b.(Offerer)
	_, can.Requests = b.(ShapeIncreaser)
	_, can.Heartbeat = b.(Heartbeater)
	_, can.Suspend = b.(Suspender)
	_, can.Metrics = b.(Meter)
	can.Volumes = NoVolumes(b) == nil
	can.Suspend = can.Suspend && info.Has(CapabilitySuspendResume)
	return can
}

// Info is what Init has returned.
func (g *Group) Info() ProviderInfo {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.info
}

// Silent is the error of a call that was given up after some time: who does not answer, and what a person can do. It wraps why.
func (g *Group) Silent(waited time.Duration, why error) error {
	if s, ok := g.basic.(Silencer); ok {
		return s.Silent(waited, why)
	}
	return fmt.Errorf("the instance group %s: %w", g.Info().ID, why)
}

// Can says what the group can do, beyond Basic.
func (g *Group) Can() Abilities {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.can
}

// Created are the instances of a request so far.
type Created struct {
	// Count is how many. It is more than was asked for where the cloud has made more.
	Count int
	// Instances are their ids; nil where the group does not say.
	Instances []string
}

// Create asks for instances and does not wait until they run. It returns all that were made for the request so far, also with an error. A repeated call makes what is
// missing and no more. Where the group does not know requests again (Abilities.Requests), that holds for this process alone, and a call whose answer did not come makes
// every later one with its id fail with ErrUncertain: whoever asks looks at the list, and takes another id. A shape, a zone or a spot machine is ErrUnsupported there.
func (g *Group) Create(ctx context.Context, r Request) (Created, error) {
	if err := r.check(); err != nil {
		return Created{}, err
	}
	can := g.Can()
	if (r.Shape != "" || r.Zone != "" || r.Spot) && !(can.Requests && can.Offers) {
		return Created{}, &Error{Kind: ErrUnsupported, Message: "the group makes machines of one kind, and none of a shape, of a zone, or spot machines"}
	}
	if !can.Requests {
		return g.increase(ctx, r)
	}
	g.mu.Lock()
	r.Labels = g.settings.labels(r)
	g.mu.Unlock()
	ids, err := g.basic.(ShapeIncreaser).IncreaseShape(ctx, r)
	ids = distinct(ids)
	return Created{Count: len(ids), Instances: ids}, err
}

// labels are those of the instances of a request.
func (s Settings) labels(r Request) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.Labels)
	maps.Copy(labels, r.Labels)
	labels[RequestLabel] = r.ID
	if s.Owner != "" {
		labels[OwnerLabel] = s.Owner
	}
	return labels
}

// Delete asks for instances to be deleted and does not wait until they are gone. It returns those that were asked for, also with an error.
func (g *Group) Delete(ctx context.Context, instances []string) ([]string, error) {
	return asked(ctx, "Decrease", instances, g.basic.Decrease)
}

// Suspend asks for instances to be suspended. It returns those that were asked for, also with an error.
func (g *Group) Suspend(ctx context.Context, instances []string) ([]string, error) {
	if !g.Can().Suspend {
		return nil, ErrSuspendResumeNotSupported
	}
	return asked(ctx, "Suspend", instances, g.basic.(Suspender).Suspend)
}

// Resume asks for suspended instances to run again. It returns those that were asked for, also with an error.
func (g *Group) Resume(ctx context.Context, instances []string) ([]string, error) {
	if !g.Can().Suspend {
		return nil, ErrSuspendResumeNotSupported
	}
	return asked(ctx, "Resume", instances, g.basic.(Suspender).Resume)
}

// asked makes a call about instances, and believes of its answer what was asked for.
func asked(ctx context.Context, call string, instances []string, do func(context.Context, []string) ([]string, error)) ([]string, error) {
	instances = distinct(instances)
	if len(instances) == 0 {
		return nil, nil
	}
	succeeded, err := do(ctx, slices.Clone(instances))
	var done, others []string
	for _, id := range distinct(succeeded) {
		if slices.Contains(instances, id) {
			done = append(done, id)
		} else {
			others = append(others, id)
		}
	}
	if len(others) > 0 {
		err = errors.Join(err, fmt.Errorf("the group's %s has answered for instances that it was not asked for: %q", call, others))
	}
	return done, err
}

// ConnectInfo says how to reach an instance. What it returns leads to that instance.
func (g *Group) ConnectInfo(ctx context.Context, instance string) (ConnectInfo, error) {
	info, err := g.basic.ConnectInfo(ctx, instance)
	if err == nil {
		err = info.check(instance)
	}
	if err != nil {
		return ConnectInfo{}, err
	}
	return info, nil
}

// Heartbeat returns ErrInstanceUnhealthy for an instance that must get no more work. Where the group does not know, all are well.
func (g *Group) Heartbeat(ctx context.Context, instance string) error {
	if !g.Can().Heartbeat {
		return nil
	}
	return g.basic.(Heartbeater).Heartbeat(ctx, instance)
}

// Offers are the shapes that can be asked for; nil where there is no choice.
func (g *Group) Offers(ctx context.Context) ([]Offer, error) {
	if !g.Can().Offers {
		return nil, nil
	}
	return g.basic.(Offerer).Offers(ctx)
}

// Metrics are what the group measures; nil where it measures nothing.
func (g *Group) Metrics(ctx context.Context) ([]Metric, error) {
	if !g.Can().Metrics {
		return nil, nil
	}
	return g.basic.(Meter).Metrics(ctx)
}

// Shutdown ends the group, once; instances stay. ctx should have a deadline.
func (g *Group) Shutdown(ctx context.Context) error {
	g.shutdown.Do(func() {
		if s, ok := g.basic.(Shutdowner); ok {
			g.ended = s.Shutdown(ctx)
		}
	})
	return g.ended
}

// distinct leaves out what is empty or comes again.
func distinct(ids []string) (out []string) {
	met := map[string]bool{"": true}
	for _, id := range ids {
		if !met[id] {
			out = append(out, id)
		}
		met[id] = true
	}
	return out
}

const (
	idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	maxID        = 63 // what the labels of every cloud can hold
)

// check refuses what cannot be asked for.
func (r Request) check() error {
	switch {
	case r.ID == "" || len(r.ID) > maxID || strings.Trim(r.ID, idCharacters) != "":
		return fmt.Errorf("the id of a request must be 1 to %d letters, digits, - and _, not %q", maxID, r.ID)
	case r.Count < 1:
		return fmt.Errorf("the request %s must be for 1 instance or more, not %d", r.ID, r.Count)
	}
	return nil
}
