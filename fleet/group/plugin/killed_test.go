//go:build unix

package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/store"
)

// TestPluginsAreKilledInEveryStateOfTheirMachines has fleets on a real plugin, whose process is killed at seeded moments while machines are made, boot, have jobs, idle
// and are deleted; the fleet is closed and opened again meanwhile, too. No job loses its machine, no machine with a job is deleted, no request makes two machines, and in
// the end there is none. (TestWhateverFails of fleet/control has processes of the fleet that die, and calls that fail, in far more ways and made-up time.)
func TestPluginsAreKilledInEveryStateOfTheirMachines(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			newOutage(t, seed).run()
		})
	}
}

// outage is a fleet whose plugin is killed.
type outage struct {
	t    *testing.T
	dir  string
	seed uint64

	mu     sync.RWMutex // held for writing while there is no fleet
	fleet  *control.Fleet
	store  store.Store
	plugin *plugin.Group
	kills  int
}

func newOutage(t *testing.T, seed uint64) *outage { return &outage{t: t, dir: t.TempDir(), seed: seed} }

func (o *outage) open() {
	var err error
	if o.store, err = store.Open(filepath.Join(o.dir, "store")); err != nil {
		o.t.Fatal(err)
	}
	o.plugin = plugin.New(config(o.t, "fake", nil))
	g := group.Adapt(o.plugin)
	if _, err := g.Init(o.t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us", State: o.dir}); err != nil {
		o.t.Fatal(err)
	}
	always := schedule.Policy{IdleTime: 300 * time.Millisecond}
	always.Periods, _ = schedule.Parse("UTC", "* * * * *")
	o.fleet, err = control.Open(o.t.Context(), control.Options{
		Scale:  scale.Config{Name: "f", Pools: []scale.Pool{{Name: "p", Slots: 2, MaxUses: 4}}, DeleteRetry: time.Second, MissingAfter: time.Minute},
		Policy: &scale.Classic{Policies: schedule.Policies{always}},
		Pools:  map[string]control.Pool{"p": {Group: g}},
		Store:  o.store, Log: slog.New(slog.DiscardHandler),
		UpdateInterval: 200 * time.Millisecond, UpdateIntervalWhenExpecting: 50 * time.Millisecond, CheckInterval: 200 * time.Millisecond, RecoverWithin: time.Hour,
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *outage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := o.fleet.Close(ctx); err != nil {
		o.t.Error(err)
	}
	_ = o.plugin.Shutdown(ctx) // it may have been killed just now
	if err := o.store.Close(); err != nil {
		o.t.Error(err)
	}
}

// there is what the cloud has: the machines that run, by their names, and how many each request has made.
func (o *outage) there() (running map[string]bool, exist int, requests map[string][]string) {
	var cloud struct {
		Machines []struct {
			ID      string
			Changes []struct {
				At    time.Time
				State group.State
			}
		}
		Requests map[string][]string
	}
	text, err := os.ReadFile(filepath.Join(o.dir, "cloud.json"))
	if err == nil {
		err = json.Unmarshal(text, &cloud)
	}
	if err != nil {
		o.t.Error(err)
	}
	running = map[string]bool{}
	for _, m := range cloud.Machines {
		state := group.State("")
		for _, c := range m.Changes {
			if !c.At.After(time.Now()) {
				state = c.State
			}
		}
		running[m.ID] = state == group.StateRunning
		if state == group.StateRunning || state == group.StateCreating {
			exist++
		}
	}
	return running, exist, cloud.Requests
}

func (o *outage) run() {
	o.open()
	calm := make(chan struct{})
	var faults, jobs sync.WaitGroup
	faults.Go(func() { o.strike(calm) })
	for i := range 12 {
		jobs.Go(func() { o.job(fmt.Sprint("job-", i), rand.New(rand.NewPCG(o.seed, uint64(i)))) })
	}
	jobs.Wait()
	time.Sleep(500 * time.Millisecond) // machines are idle, and end
	close(calm)
	faults.Wait()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, exist, requests := o.there()
		if exist == 0 && len(o.fleet.Status().Machines) == 0 {
			for request, ids := range requests {
				if len(ids) != 1 {
					o.t.Errorf("%s has made %q", request, ids)
				}
			}
			o.t.Logf("the plugin was killed %d times; %d machines were made", o.kills, len(requests))
			break
		}
		if time.Now().After(until) {
			o.t.Errorf("%d machines are left: %+v", exist, o.fleet.Status().Machines)
			break
		}
	}
	o.close()
}

// strike kills the plugin, and sometimes closes the fleet and opens it again.
func (o *outage) strike(calm <-chan struct{}) {
	dice := rand.New(rand.NewPCG(o.seed, 1000))
	for {
		select {
		case <-calm:
			return
		case <-time.After(time.Duration(10+dice.IntN(200)) * time.Millisecond):
		}
		if dice.IntN(8) == 0 {
			o.mu.Lock()
			o.close()
			o.open()
			o.mu.Unlock()
		} else if pid := o.plugin.PID(); pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			o.kills++
		}
	}
}

// job comes, has a slot for a while, and looks for its machine all the time.
func (o *outage) job(key string, dice *rand.Rand) {
	time.Sleep(time.Duration(dice.IntN(2000)) * time.Millisecond)
	var slot *control.Slot
	for slot == nil {
		o.mu.RLock()
		fleet := o.fleet
		o.mu.RUnlock()
		ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
		got, err := fleet.Acquire(ctx, key, control.Job{ID: key, Project: "p"}, nil)
		if ctx.Err() != nil {
			o.t.Errorf("%s has no machine after a minute: %v", key, err)
			cancel()
			return
		}
		cancel()
		slot = got // nil where the fleet was closed meanwhile
	}
	for until := time.Now().Add(time.Duration(50+dice.IntN(500)) * time.Millisecond); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if running, _, _ := o.there(); !running[slot.Instance] {
			o.t.Errorf("%s: its machine %s does not run: %q", key, slot.Instance, slot.Reason())
			break
		}
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	o.fleet.Release(key, "")
}
