package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
	"github.com/rungci/rung/steps/event"
)

// vault is one in memory.
type vault struct {
	mu   sync.Mutex
	kept map[string][]byte
}

// Keep implements provider.Vault.
func (v *vault) Keep(name string, text []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[name] = slices.Clone(text)
	return nil
}

// Kept implements provider.Vault.
func (v *vault) Kept(name string) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept[name], nil
}

// sky is a world of plugins, each of which has a cloud of its own, and of a fleet that is opened again and again.
type sky struct {
	clouds  map[string]*fake.Group
	setup   provider.Setup
	missing map[string]bool // plugins that cannot be started
}

func newSky(t *testing.T, plugins ...string) *sky {
	s := &sky{
		clouds: map[string]*fake.Group{}, missing: map[string]bool{},
		setup: provider.Setup{Owner: "test", State: t.TempDir(), Vault: &vault{kept: map[string][]byte{}}},
	}
	for _, name := range plugins {
		s.clouds[name] = fake.New(fake.Options{})
	}
	return s
}

// pools is an entry with pools of one machine each: a name, and its plugin; the n-th has n processors.
func pools(namesAndPlugins ...string) *config.Machinery {
	m := autoscaled(1, 1)
	for i := 0; i < len(namesAndPlugins); i += 2 {
		m.Fleet.Pools = append(m.Fleet.Pools, config.Pool{
			Name: namesAndPlugins[i], Plugin: namesAndPlugins[i+1], PluginConfig: map[string]any{"number": 12345678901}, CPUs: float64(1 + i/2), Price: float64(1 + i/2),
		})
	}
	return m
}

func (s *sky) open(t *testing.T, m *config.Machinery) *fleet.Provider {
	t.Helper()
	p, err := fleet.Open(t.Context(), fleet.Options{
		Name: "test", Machinery: m, Setup: s.setup, Log: slog.New(slog.DiscardHandler),
		Group: func(_ context.Context, name string, _ map[string]any) (group.Basic, error) {
			if s.missing[name] {
				return nil, errors.New("it is not installed")
			}
			return s.clouds[name], nil
		},
		Connect: func(context.Context, provider.Access) (host.Host, error) { return local.New(), nil },
		Tuning: func(o *control.Options) {
			o.UpdateInterval, o.Scale.MissingAfter, o.Scale.DeleteRetry = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// has is how many machines the clouds have, by plugin.
func (s *sky) has() map[string]int {
	all := map[string]int{}
	for name, g := range s.clouds {
		for _, m := range g.Machines() {
			if m.State == group.StateRunning {
				all[name]++
			}
		}
	}
	return all
}

func (s *sky) await(t *testing.T, p *fleet.Provider, want map[string]int) {
	t.Helper()
	await(t, p, "in the clouds as wanted", func(*fleet.Status) bool { return maps.Equal(s.has(), want) })
}

func release(t *testing.T, p *fleet.Provider, key string) {
	t.Helper()
	if err := p.Release(t.Context(), key, ""); err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, p *fleet.Provider) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMachinesOfAPoolThatIsTakenFromTheConfigurationFinishTheirJobsAndAreEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after *config.Machinery
		left          map[string]int
	}{
		"the only one of its plugin":            {pools("a", "one", "b", "two", "c", "three"), pools("a", "one", "c", "three"), map[string]int{"one": 1, "three": 1}},
		"the first of its fleet":                {pools("b", "two", "a", "one", "c", "three"), pools("a", "one", "c", "three"), map[string]int{"one": 1, "three": 1}},
		"its plugin has another pool":           {pools("a", "one", "b", "two", "c", "two"), pools("a", "one", "c", "two"), map[string]int{"one": 1, "two": 1}},
		"its name has another plugin":           {pools("a", "one", "b", "two", "c", "three"), pools("a", "one", "b", "four", "c", "three"), map[string]int{"one": 1, "three": 1}},
		"the plugin of another pool is all now": {pools("a", "one", "b", "two"), pools("a", "one"), map[string]int{"one": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSky(t, "one", "two", "three", "four")
			p := s.open(t, c.before)
			machines := map[string]*provider.Machine{} // by pool
			for i, of := range c.before.Fleet.Pools {
				machines[of.Name] = acquire(t, p, of.Name, provider.Needs{CPUs: float64(1 + i)})
			}
			for name := range machines {
				if name != "b" {
					release(t, p, name)
				}
			}
			all := s.has()
			closed(t, p)
			for range 2 { // it is known for as long as it takes
				p = s.open(t, c.after)
				back, err := p.Recover(t.Context(), "b", machines["b"].Handle)
				if err != nil || back.Name != machines["b"].Name {
					t.Fatalf("the job has lost its machine: %+v, %v", back, err)
				}
				if !maps.Equal(s.has(), all) {
					t.Fatalf("there are %v, and were %v", s.has(), all)
				}
				if text := p.Status().Pools; !slices.ContainsFunc(text, func(p fleet.PoolStatus) bool { return p.Instances["draining"] == 1 }) {
					t.Errorf("no pool is said to drain: %+v", text)
				}
				closed(t, p)
			}
			p = s.open(t, c.after)
			if _, err := p.Recover(t.Context(), "b", machines["b"].Handle); err != nil {
				t.Fatal(err)
			}
			release(t, p, "b")
			s.await(t, p, c.left)
			await(t, p, "without machines of the pool", func(s *fleet.Status) bool { return len(s.Machines) == len(c.before.Fleet.Pools)-1 })
			closed(t, p)
			s.missing["two"] = !slices.ContainsFunc(c.after.Fleet.Pools, func(p config.Pool) bool { return p.Plugin == "two" }) // nobody needs it any more
			s.open(t, c.after)
		})
	}
}

func TestMachinesWhosePluginCannotBeStartedStayAndAreEndedOnceItCan(t *testing.T) {
	t.Parallel()
	s := newSky(t, "one", "two")
	p := s.open(t, pools("a", "one", "b", "two"))
	name := acquire(t, p, "b", provider.Needs{CPUs: 2}).Name
	release(t, p, "b")
	closed(t, p)
	s.missing["two"] = true
	p = s.open(t, pools("a", "one"))
	before := s.clouds["one"].Calls("List")
	await(t, p, "listed", func(*fleet.Status) bool { return s.clouds["one"].Calls("List") > before+5 })
	if got := p.Status().Machines; len(got) != 1 || got[0].Instance != name || len(s.has()) != 1 {
		t.Fatalf("the fleet has %+v", got)
	}
	closed(t, p)
	s.missing["two"] = false
	p = s.open(t, pools("a", "one"))
	s.await(t, p, map[string]int{})
	await(t, p, "without machines", none)
}

func TestTheMachinesOfARemovedFleetAreEndedAlsoIfItsConfigurationNamesAPluginThatDoesNotExist(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after *config.Machinery
	}{
		"instead of the only one":       {before: pools("a", "one"), after: pools("a", "mistyped")},
		"beside one that exists":        {before: pools("a", "one", "b", "two"), after: pools("a", "one", "b", "mistyped")},
		"in a pool that had no machine": {before: pools("a", "one"), after: pools("b", "mistyped")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSky(t, "one", "two")
			s.missing["mistyped"] = true
			p := s.open(t, c.before)
			for i, of := range c.before.Fleet.Pools {
				acquire(t, p, of.Name, provider.Needs{CPUs: float64(1 + i)})
				release(t, p, of.Name)
			}
			closed(t, p)
			for range 2 { // there is nothing left the second time
				s.setup.Removed = true
				p = s.open(t, c.after)
				if err := p.End(true); err != nil {
					t.Fatal(err)
				}
				if left := s.has(); len(left) > 0 || fleet.Left(s.setup.State, nil) {
					t.Fatalf("left: %v", left)
				}
			}
		})
	}
}

func TestTheMachinesOfAFleetThatIsNotOpenAreKnown(t *testing.T) {
	t.Parallel()
	s := newSky(t, "one", "two")
	p := s.open(t, pools("a", "one", "b", "two"))
	if err := p.Reserve(t.Context(), "key", provider.Needs{CPUs: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), "key", provider.Job{ID: "4711", Project: "7"}, func(event.Preparing) {}); err != nil {
		t.Fatal(err)
	}
	name := acquire(t, p, "b", provider.Needs{CPUs: 2}).Name
	release(t, p, "b")
	await(t, p, "with an idle machine", func(s *fleet.Status) bool { return len(s.Jobs) == 1 })
	was := p.Status()
	closed(t, p)
	got := fleet.Closed(s.setup.State, nil, pools("a", "one"))
	if len(got.Machines) != 2 || got.Machines[0].Slots() != "1/1" || got.Machines[0].Jobs[0] != "4711" || got.Machines[1].Instance != name || got.Machines[1].State != "ready" {
		t.Errorf("machines: %+v", got.Machines)
	}
	if len(got.Jobs) != 1 || got.Jobs[0].Job != "4711" || !got.Jobs[0].Since.Equal(was.Jobs[0].Since) || got.Jobs[0].Why != was.Jobs[0].Why {
		t.Errorf("jobs: %+v", got.Jobs)
	}
	if len(got.Pools) != 2 || got.Pools[0].Most != 1 || got.Pools[0].Instances["ready"] != 1 || got.Pools[1].Name != "b" || got.Pools[1].Instances["ready"] != 1 {
		t.Errorf("pools, of which the configuration has one no more: %+v", got.Pools)
	}
	if !got.Closed || got.Trouble != "" {
		t.Errorf("%+v", got)
	}
	if empty := fleet.Closed(t.TempDir(), nil, pools("a", "one")); len(empty.Machines) != 0 || len(empty.Pools) != 1 || empty.Trouble != "" {
		t.Errorf("one that had none: %+v", empty)
	}
}

func TestPoolsOfOneGroupHaveRoomForNoMoreJobsThanItHasMachinesFor(t *testing.T) {
	t.Parallel()
	s := newSky(t, "one", "two")
	s.clouds["one"] = fake.New(fake.Options{Size: 4})
	m := pools("a", "one", "b", "one", "c", "two")
	m.Autoscaler.MaxInstances = 0
	m.Fleet.Pools[2].MaxInstances = 3
	p := s.open(t, m)
	for i := range 4 + 3 {
		if err := p.Reserve(t.Context(), fmt.Sprint("job-", i), provider.Needs{}); err != nil {
			t.Fatal(i, err)
		}
	}
	var full *provider.NoCapacity
	if err := p.Reserve(t.Context(), "one-more", provider.Needs{}); !errors.As(err, &full) || full.Never {
		t.Errorf("one more is reserved: %v", err)
	}
	if n := p.Status().Metrics.MaxInstances; n != 4+3 {
		t.Errorf("there may be %d machines", n)
	}
}
