package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/providertest"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
)

// clouds are groups in memory that outlive the provider of a test, by its state folder, as clouds do.
type clouds struct {
	mu     sync.Mutex
	groups map[string]*fake.Group

	observe func(store.Entry) // may be nil
}

func (c *clouds) of(state string, size int) *fake.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups = map[string]*fake.Group{}
	}
	if c.groups[state] == nil {
		c.groups[state] = fake.New(fake.Options{Size: size})
	}
	return c.groups[state]
}

// remove removes a machine behind the back of its fleet.
func (c *clouds) remove(t *testing.T, m *provider.Machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for state, g := range c.groups {
		if !strings.HasPrefix(m.Access.KnownHosts, state) {
			continue
		}
		if _, err := g.Decrease(t.Context(), []string{m.Name}); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no cloud has the machine", m.Name)
}

// autoscaled is an entry with so many machines of so many slots.
func autoscaled(machines, slots int) *config.Machinery {
	return &config.Machinery{Executor: config.InstanceExecutor, Autoscaler: &config.Autoscaler{
		Plugin: "fake", MaxInstances: machines, CapacityPerInstance: slots, UpdateIntervalWhenExpecting: 20 * time.Millisecond,
		Policies: []config.AutoscalerPolicy{{IdleTime: time.Hour}},
	}}
}

// open opens a fleet of a cloud, whose machines are this one.
func (c *clouds) open(ctx context.Context, m *config.Machinery, setup provider.Setup) (*fleet.Provider, error) {
	return fleet.Open(ctx, fleet.Options{
		Name: "test", Machinery: m, Setup: setup, Observe: c.observe,
		Group: func(context.Context, string, map[string]any) (group.Basic, error) {
			return c.of(setup.State, m.Autoscaler.MaxInstances), nil
		},
		Connect: func(context.Context, provider.Access) (host.Host, error) { return local.New(), nil },
		Tuning: func(o *control.Options) {
			o.UpdateInterval = 100 * time.Millisecond
			o.Scale.MissingAfter = 50 * time.Millisecond
		},
	})
}

func TestConformance(t *testing.T) {
	c := &clouds{}
	providertest.Run(t, providertest.Subject{
		Open: func(ctx context.Context, setup provider.Setup) (provider.Provider, error) {
			return c.open(ctx, autoscaled(2, 2), setup)
		},
		Room: 4,
		Ends: map[string]func(*testing.T, *provider.Machine){"it is removed from outside": func(t *testing.T, m *provider.Machine) { c.remove(t, m) }},
	})
}

// begin opens a fleet for a test.
func begin(t *testing.T, c *clouds, m *config.Machinery, state string) *fleet.Provider {
	t.Helper()
	p, err := c.open(t.Context(), m, provider.Setup{Owner: "test", State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// acquire gets a machine for a job.
func acquire(t *testing.T, p *fleet.Provider, key string, needs provider.Needs) *provider.Machine {
	t.Helper()
	if err := p.Reserve(t.Context(), key, needs); err != nil {
		t.Fatal(err)
	}
	m, err := p.Acquire(t.Context(), key, provider.Job{ID: "job of " + key, ProjectName: "a/b", Needs: needs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// await waits until a fleet is as it should be.
func await(t *testing.T, p *fleet.Provider, what string, is func(*fleet.Status) bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !is(p.Status()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not %s: %+v", what, p.Status())
		}
	}
}

func none(s *fleet.Status) bool { return len(s.Machines) == 0 }

func TestAMachineForOneJobIsFreshAndGoesWithIt(t *testing.T) {
	t.Parallel()
	m := autoscaled(2, 1)
	m.Autoscaler.MaxUseCount = 1
	p := begin(t, &clouds{}, m, t.TempDir())
	if got := acquire(t, p, "one", provider.Needs{}); !got.Fresh || got.Slot != 0 {
		t.Errorf("the machine is %+v", got)
	}
	if s := p.Status(); len(s.Jobs) != 1 || s.Jobs[0].Job != "job of one" || s.Jobs[0].Project != "a/b" || s.Machines[0].Jobs[0] != "job of one" {
		t.Errorf("the fleet says %+v", s)
	}
	if err := p.Release(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	await(t, p, "without machines", none)
	if got := acquire(t, begin(t, &clouds{}, autoscaled(1, 2), t.TempDir()), "one", provider.Needs{}); got.Fresh {
		t.Error("a machine for several jobs is said to be fresh")
	}
}

func TestIdleMachinesAreSuspendedAndHaveTheLabelsOfTheirPool(t *testing.T) {
	t.Parallel()
	m, cloud, state := autoscaled(2, 1), &clouds{}, t.TempDir()
	none := 0
	m.Autoscaler.Policies[0].IdleTime = 0
	m.Fleet = config.Fleet{Suspend: 1, Pools: []config.Pool{{Name: "sleeps", CPUs: 2, Price: 1, Labels: map[string]string{"team": "web"}}, {Name: "ends", CPUs: 4, Price: 2, Suspend: &none}}}
	p := begin(t, cloud, m, state)
	for _, c := range []struct {
		cpus float64
		left map[string]int
	}{{4, map[string]int{}}, {2, map[string]int{"suspended": 1}}} {
		key := fmt.Sprint(c.cpus)
		acquire(t, p, key, provider.Needs{CPUs: c.cpus})
		if err := p.Release(t.Context(), key, ""); err != nil {
			t.Fatal(err)
		}
		await(t, p, "as its pools say", func(s *fleet.Status) bool {
			all := map[string]int{}
			for _, m := range s.Machines {
				all[m.State]++
			}
			return maps.Equal(all, c.left)
		})
	}
	await(t, p, "with a suspended machine in the cloud", func(*fleet.Status) bool { // the fleet says so before the cloud is asked
		labels := []string{}
		err := cloud.of(state, 0).List(t.Context(), func(i group.Instance) {
			if i.State == group.StateSuspended {
				labels = append(labels, i.Labels["team"])
			}
		})
		return err == nil && slices.Equal(labels, []string{"web"})
	})
}

func TestAJobThatNoPoolIsEnoughForIsRefusedForGood(t *testing.T) {
	t.Parallel()
	m := autoscaled(2, 1)
	m.Fleet.Pools = []config.Pool{{Name: "small", CPUs: 2}, {Name: "large", CPUs: 8, Spot: true}}
	p := begin(t, &clouds{}, m, t.TempDir())
	for name, n := range map[string]provider.Needs{
		"too many processors":         {CPUs: 16},
		"no machine that is not spot": {CPUs: 8, Labels: map[string]string{fleet.SpotLabel: "false"}},
		"a label":                     {Labels: map[string]string{"zone": "eu"}},
	} {
		var no *provider.NoCapacity
		if err := p.Reserve(t.Context(), "key", n); !errors.As(err, &no) || !no.Never || no.Reason == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := acquire(t, p, "large", provider.Needs{CPUs: 8}); p.Status().Machines[0].Pool != "large" {
		t.Error("the machine is", got.Name)
	}
}

func TestAMachineWhoseReadyCommandFailsIsReplaced(t *testing.T) {
	t.Parallel()
	m := autoscaled(2, 1)
	mark := filepath.Join(t.TempDir(), "mark")
	m.Autoscaler.InstanceReadyCommand = "test -e " + mark + " || { touch " + mark + "; echo not yet; exit 3; }"
	var mu sync.Mutex
	var said []string
	c := &clouds{observe: func(e store.Entry) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, e.Why)
	}}
	p := begin(t, c, m, t.TempDir())
	if got := acquire(t, p, "one", provider.Needs{}); got.Name != "fake-1" {
		t.Error("the machine is", got.Name)
	}
	mu.Lock()
	defer mu.Unlock()
	if text := strings.Join(said, "\n"); !strings.Contains(text, "instance_ready_command exited with 3: not yet") {
		t.Error("nobody says why the first one failed:", text)
	}
}

func TestMachinesStayForTheNextProcessUnlessTheyAreToEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends, removed bool
		left          int
	}{
		"they stay":                 {false, false, 1},
		"they end with the manager": {true, false, 0},
		"their entry is removed":    {false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, cloud, state := autoscaled(2, 1), &clouds{}, t.TempDir()
			m.Autoscaler.DeleteInstancesOnShutdown = c.ends
			p := begin(t, cloud, m, state)
			acquire(t, p, "one", provider.Needs{})
			if err := p.Release(t.Context(), "one", ""); err != nil {
				t.Fatal(err)
			}
			if err := p.End(c.removed); err != nil {
				t.Fatal(err)
			}
			if fleet.Left(state, nil) == c.removed {
				t.Error("the folder is said to have machines:", !c.removed)
			}
			p = begin(t, cloud, m, state)
			await(t, p, "as it was left", func(s *fleet.Status) bool { return len(s.Machines) == c.left })
		})
	}
}
