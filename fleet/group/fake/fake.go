// Package fake is an instance group in memory, for tests of whoever uses groups: it does what clouds do, the worst of it included, as told and always in the same way.
//
//	clock := fake.NewManual(start)
//	cloud := fake.New(fake.Options{
//		Clock: clock, Size: 10, Boot: time.Minute, Lag: 5 * time.Second,
//		Machine: func(n int) fake.Fate { return fake.Fate{Stuck: n == 3} },
//		Before:  fake.On("Decrease", fake.Fail(group.ErrTransient)),
//	})
//
// What a machine is at a time is fixed when it is made, and changed only by calls: nothing runs in the background, and a list is a look at a time.
package fake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
)

// Options are what a cloud is like. The zero value is one where everything works at once.
type Options struct {
	// Clock is the cloud's; nil is this machine's.
	Clock Clock
	// Size is how many machines there can be at once, and Info.MaxSize; 0 is 100. Quota is how many the cloud really allows; 0 is Size.
	Size, Quota int
	// Offers are the shapes; nil is one kind of machine, and a request for a shape is not found.
	Offers []group.Offer

	// Boot, Deleting and Suspending are how long each takes.
	Boot, Deleting, Suspending time.Duration
	// Lag is by how much lists are behind what is.
	Lag time.Duration
	// Page is how many machines a page of a list has, and PageTime how long each takes; 0 is one page.
	Page     int
	PageTime time.Duration
	// KeepDeleted lists machines that are deleted, as deleted.
	KeepDeleted bool
	// Surplus is how many machines each call of Increase makes beyond what it was asked for.
	Surplus int

	// Before is called when a call begins, and lets it fail; After when all is done, so that the call has an effect and fails. Both may take long.
	Before, After func(ctx context.Context, c Call) error
	// Machine says what becomes of the n-th machine, from 0.
	Machine func(n int) Fate
	// Connect changes what ConnectInfo says, so that it lies.
	Connect func(*group.ConnectInfo)
	// Device says where machines have a volume, which is a block device; nil: volumes are folders.
	Device func(volume string) string
	// File keeps the cloud in a file, below Settings.State, so that it outlives the group; empty is memory alone. Two groups with one file are not for use at once.
	File string
}

// Fate is what becomes of one machine. Times are since it was asked for; 0 is never.
type Fate struct {
	// Boot and Deleting are in place of those of Options; 0 is those.
	Boot, Deleting time.Duration
	// Stuck never runs.
	Stuck bool
	// Fails is when it fails, for a reason.
	Fails  time.Duration
	Reason string
	// Vanishes is when it is gone without a word.
	Vanishes time.Duration
	// Interrupted is when the notice comes that it will be taken away, and Notice how long after that it is.
	Interrupted, Notice time.Duration
	// Back is when it is said to be creating again.
	Back time.Duration
	// Unhealthy is when Heartbeat says so.
	Unhealthy time.Duration
	// Undeletable is how many calls that delete it fail first.
	Undeletable int
}

// Call is one call of the group.
type Call struct {
	// Name is the method's: "IncreaseShape".
	Name string
	// N counts the calls of this name, from 0. The pages of a list after the first are calls of the name "page".
	N int
	// Instances and Count are what is asked for.
	Instances []string
	Count     int
}

// Group is an instance group in memory. It implements all of the contract; struct{ group.Basic }{g} is one that does not.
type Group struct {
	*disks
	o Options

	mu       sync.Mutex
	settings group.Settings
	cloud    cloud
	calls    map[string]int
	changed  chan struct{} // closed at the next change
	down     bool
}

// New makes a group.
func New(o Options) *Group {
	if o.Clock == nil {
		o.Clock = system{}
	}
	o.Size = cmp.Or(o.Size, 100)
	o.Quota = cmp.Or(o.Quota, o.Size)
	g := &Group{o: o, cloud: cloud{Requests: map[string][]string{}}, calls: map[string]int{}, changed: make(chan struct{})}
	g.disks = &disks{g}
	return g
}

var (
	_ group.InstanceGroup  = (*Group)(nil)
	_ group.Lister         = (*Group)(nil)
	_ group.Watcher        = (*Group)(nil)
	_ group.Offerer        = (*Group)(nil)
	_ group.ShapeIncreaser = (*Group)(nil)
	_ group.Meter          = (*Group)(nil)
)

// call makes a call: Before, what it does, and After.
func (g *Group) call(ctx context.Context, c Call, do func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.mu.Lock()
	c.N = g.calls[c.Name]
	g.calls[c.Name]++
	g.mu.Unlock()
	if g.o.Before != nil {
		if err := g.o.Before(ctx, c); err != nil {
			return err
		}
	}
	if do != nil {
		if err := g.locked(do); err != nil {
			return err
		}
	}
	if g.o.After != nil {
		return g.o.After(ctx, c)
	}
	return nil
}

// locked does something with the cloud, and keeps what has changed.
func (g *Group) locked(do func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := do()
	close(g.changed)
	g.changed = make(chan struct{})
	if g.o.File == "" {
		return err
	}
	text, failed := json.Marshal(g.cloud)
	if failed == nil {
		failed = os.WriteFile(g.file()+".new", text, 0o600)
	}
	if failed == nil { // a process that is killed meanwhile leaves a whole file
		failed = os.Rename(g.file()+".new", g.file())
	}
	return errors.Join(err, failed)
}

func (g *Group) file() string { return filepath.Join(g.settings.State, g.o.File) }

// Init implements group.Basic.
func (g *Group) Init(ctx context.Context, _ hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	err := g.call(ctx, Call{Name: "Init"}, func() error {
		g.settings = settings
		if g.o.File == "" {
			return nil
		}
		text, err := os.ReadFile(g.file())
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(text, &g.cloud)
		}
		return err
	})
	if err != nil {
		return group.ProviderInfo{}, err
	}
	return group.ProviderInfo{
		ID: "fake", MaxSize: g.o.Size, Version: "1.0.0", BuildInfo: "fake", Capabilities: []group.Capability{group.CapabilitySuspendResume},
	}, nil
}

// Shutdown implements group.Shutdowner.
func (g *Group) Shutdown(ctx context.Context) error {
	return g.call(ctx, Call{Name: "Shutdown"}, func() error {
		g.down = true
		return nil
	})
}

// Down reports whether Shutdown was called.
func (g *Group) Down() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.down
}

// Calls is how often a method was called.
func (g *Group) Calls(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[name]
}

// Offers implements group.Offerer.
func (g *Group) Offers(ctx context.Context) ([]group.Offer, error) {
	return g.o.Offers, g.call(ctx, Call{Name: "Offers"}, nil)
}

// Metrics implements group.Meter: the calls.
func (g *Group) Metrics(ctx context.Context) (out []group.Metric, err error) {
	err = g.call(ctx, Call{Name: "Metrics"}, func() error {
		for name, n := range g.calls {
			out = append(out, group.Metric{Name: "fake_calls_total", Help: "Calls of the fake cloud.", Counter: true, Labels: map[string]string{"call": name}, Value: float64(n)})
		}
		return nil
	})
	return out, err
}

// ConnectInfo implements group.Basic.
func (g *Group) ConnectInfo(ctx context.Context, instance string) (info group.ConnectInfo, err error) {
	err = g.call(ctx, Call{Name: "ConnectInfo", Instances: []string{instance}}, func() error {
		m, now, err := g.cloud.existing(instance, g.o.Clock.Now())
		if err != nil {
			return err
		}
		if now.State != group.StateRunning {
			return group.Transient(g.o.Boot, fmt.Errorf("the machine %s is %s", instance, now.State))
		}
		info = group.ConnectInfo{ConnectorConfig: g.settings.ConnectorConfig, ID: instance}
		info.InternalAddr = fmt.Sprintf("10.0.%d.%d", m.Number/250, m.Number%250+1)
		info.ExternalAddr = fmt.Sprintf("host-%d.fake.test", m.Number)
		if g.o.Connect != nil {
			g.o.Connect(&info)
		}
		return nil
	})
	if err != nil {
		return group.ConnectInfo{}, err
	}
	return info, nil
}

// Heartbeat implements group.Heartbeater.
func (g *Group) Heartbeat(ctx context.Context, instance string) error {
	return g.call(ctx, Call{Name: "Heartbeat", Instances: []string{instance}}, func() error {
		m, now, err := g.cloud.existing(instance, g.o.Clock.Now())
		unhealthy := m != nil && !m.Unhealthy.IsZero() && !g.o.Clock.Now().Before(m.Unhealthy)
		switch {
		case err != nil:
			return err
		case unhealthy || now.State != group.StateRunning:
			return &group.Error{Kind: group.ErrInstanceUnhealthy, Message: instance}
		}
		return nil
	})
}
