// Package fleet is the machines of one entry of the configuration, by demand, as a provider of the executor contract.
//
//	config.Machinery ──> pools, groups, policy ──> fleet/control, the loop, with its state in a folder
//	                                                   │  places: jobs' slots as places of a provider
//	supply ──> provider.Provider <─────────────────────┘  connections: one for each machine, shared by its slots, its checks and its ready command
//
// The loop keeps machines and jobs for a process that comes after this one. What is added here is what a provider promises beyond that (keys with leases),
// and how machines are reached.
package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/places"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/manager/config"
)

const (
	// openTime bounds the opening of a group.
	openTime = time.Minute
	// closeTime bounds the end of the loop, and that of each group, when machines stay.
	closeTime = 30 * time.Second
	// defaultBetween and defaultTimes are how long there is between two attempts to delete a machine while the manager ends, and how often it is tried.
	defaultBetween = 10 * time.Second
	defaultTimes   = 3
)

// Options are what a fleet is made of.
type Options struct {
	// Name is that of the entry, for people.
	Name      string
	Machinery *config.Machinery
	Setup     provider.Setup
	// Group makes the group that the configuration names, which is not initialised yet.
	Group func(ctx context.Context, plugin string, options map[string]any) (group.Basic, error)
	// Shared is the state that this manager shares with others; nil: it is in the folder of Setup.
	Shared *sharedstate.State
	// Engine is the address of the container engine on machines; empty: it is found.
	Engine string
	// Connect makes a host of a machine.
	Connect func(ctx context.Context, to provider.Access) (host.Host, error)
	// MountFolder is where machines have volumes that are block devices; empty: mountFolder.
	MountFolder string
	Log         *slog.Logger
	// Observe is told what happens, in order; nil: nobody is. It must be quick.
	Observe func(store.Entry)
	// Tuning changes the loop's times, for tests.
	Tuning func(*control.Options)
}

// Provider is a fleet.
type Provider struct {
	*places.Provider[*seat]
	o       Options
	info    Info
	control *control.Fleet
	store   store.Store
	groups  []*group.Group
	pools   map[string]*pool
	hosts   *hosts
	mounts  *mounts
	meter   *meter
	begun   chan struct{}   // closed when control is there
	life    context.Context // ends with Close
	end     context.CancelFunc
	busy    background.Group
	closing sync.Once
	closed  error
	between time.Duration // attempts to delete a machine at the end
	times   int
}

// The files of a fleet, in its folder.
const (
	infoFile    = "fleet.json"
	stateFolder = "state"
	groupFolder = "groups"
	keysFolder  = "host-keys"
)

// Info is what a fleet's folder says of it.
type Info struct {
	// Name begins the names of requests, and is whom machines belong to. It stays the same.
	Name string `json:"name"`
	// Runner is the entry's name.
	Runner string `json:"runner"`
	// Removed says that the entry is not in the configuration any more, and that no machine is left.
	Removed bool `json:"removed,omitempty"`
}

// ProvidersFolder is the folder of providers within a manager's state folder.
const ProvidersFolder = "providers"

// Folder is what is kept of a fleet.
type Folder struct {
	Info
	// History is the folder of store.ReadHistory.
	History string
}

// Folders are those of the fleets in a manager's state folder, by the names of their runners.
func Folders(state string) ([]Folder, error) {
	files, err := filepath.Glob(filepath.Join(escaped.Replace(state), ProvidersFolder, "*", infoFile))
	if err != nil {
		return nil, err
	}
	var all []Folder
	for _, file := range files {
		info, err := readInfo(file)
		if err != nil {
			return nil, err
		}
		all = append(all, Folder{info, filepath.Join(filepath.Dir(file), stateFolder)})
	}
	slices.SortStableFunc(all, func(a, b Folder) int { return cmp.Compare(a.Runner, b.Runner) })
	return all, nil
}

// Left reports whether a folder is that of a fleet that may have machines, by what is in it, or in the state that hosts share; nil: there is none.
func Left(folder string, shared *sharedstate.State) bool {
	if shared != nil && len(shared.Names(SharedPrefix+filepath.Base(folder)+"/"+machinesPrefix)) > 0 {
		return true
	}
	info, err := readInfo(filepath.Join(folder, infoFile))
	return err == nil && !info.Removed
}

// escaped writes a path as a pattern.
var escaped = strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`)

func readInfo(file string) (info Info, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if err != nil {
		return info, fmt.Errorf("%s: %w", file, err)
	}
	return info, nil
}

// Open makes a fleet of what the configuration says, and takes over what its folder has.
func Open(ctx context.Context, o Options) (_ *Provider, err error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	info, err := identify(o)
	if err != nil {
		return nil, err
	}
	p := &Provider{o: o, info: info, pools: map[string]*pool{}, meter: newMeter(o.Machinery), begun: make(chan struct{})}
	p.life, p.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			p.end()
			err = errors.Join(err, p.shut(closeTime))
		}
	}()
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// identify reads what the folder says of the fleet, or begins it.
func identify(o Options) (Info, error) {
	path := filepath.Join(o.Setup.State, infoFile)
	info, err := readInfo(path)
	if err == nil && info.Name != "" && info.Runner == o.Name && !info.Removed {
		return info, nil
	}
	sum := sha256.Sum256([]byte(o.Setup.Owner + "\n" + filepath.Base(o.Setup.State)))
	info.Name, info.Runner = cmp.Or(info.Name, "rung-"+hex.EncodeToString(sum[:6])), o.Name
	info.Removed = false
	return info, info.write(o.Setup.State)
}

func (i Info) write(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	text, _ := json.Marshal(i) // of texts
	return wholefile.WriteText(filepath.Join(folder, infoFile), 0o600, text)
}

func (p *Provider) open(ctx context.Context) error {
	o := &p.o
	policy, err := policyOf(o.Machinery)
	if err != nil {
		return err
	}
	if err := checkIsolation(o.Machinery); err != nil {
		return err
	}
	made, err := p.fromState(ctx)
	if err != nil {
		return err
	}
	p.hosts = newHosts(p)
	p.mounts = &mounts{p.hosts, cmp.Or(o.MountFolder, mountFolder)}
	settings := control.Options{
		Scale: scale.Config{Name: p.info.Name, ThrottleReservations: true, Volumes: volumesOf(o.Machinery)}, Policy: policy, Pools: map[string]control.Pool{},
		Store: p.store, Log: o.Log, Observe: p.observe, Prepare: p.hosts.prepare, Check: p.hosts.check,
		Mount: p.mounts.mount, Unmount: p.mounts.unmount,
		RecoverWithin: cmp.Or(o.Setup.Lease, provider.DefaultLease),
	}
	for _, m := range made {
		settings.Scale.Pools = append(settings.Scale.Pools, m.scale)
		settings.Pools[m.scale.Name] = m.control
		p.pools[m.scale.Name] = m
	}
	times(&settings, o.Machinery)
	if o.Tuning != nil {
		o.Tuning(&settings)
	}
	p.between, p.times = settings.ShutdownDeletionInterval, settings.ShutdownDeletionRetries
	if p.control, err = control.Open(ctx, settings); err != nil {
		return fmt.Errorf("the fleet cannot begin: %w", err)
	}
	close(p.begun)
	p.Provider = places.New[*seat](&source{p}, o.Setup.Lease)
	p.busy.Go(p.follow)
	return nil
}

// fromState opens the state, and makes the pools with their groups: those of the configuration, and others that the state has machines of.
func (p *Provider) fromState(ctx context.Context) ([]*pool, error) {
	if err := p.openStore(); err != nil {
		return nil, fmt.Errorf("the state of the fleet cannot be opened: %w", err)
	}
	opened := p.store
	state, err := opened.Load()
	if err != nil {
		return nil, fmt.Errorf("the state of the fleet: %w", err)
	}
	before, err := lineageOf(&p.o)
	if err != nil {
		p.o.Log.Error("it is unknown which groups the fleet has had; machines of pools that are not in the configuration any more may stay", "error", err)
	}
	made, err := p.machines(ctx, before)
	if err != nil {
		return nil, err
	}
	retired, err := p.retire(ctx, before, &state)
	if err != nil {
		return nil, fmt.Errorf("the groups of the fleet cannot be kept: %w", err)
	}
	p.store = &loaded{opened, state}
	if fenced, ok := opened.(store.Fenced); ok {
		p.store = &loadedFenced{loaded{opened, state}, fenced}
	}
	if made = append(made, retired...); len(made) == 0 { // it is removed, has no machines, and its plugin cannot be opened
		of := poolsOf(p.o.Machinery)[0]
		made = []*pool{{scale: kindOf(of, p.o.Machinery)}}
		made[0].scale.Retired = true
	}
	return made, nil
}

// openStore opens the state, and brings what another host has kept for groups.
func (p *Provider) openStore() (err error) {
	state, folder := p.o.Shared, filepath.Join(p.o.Setup.State, stateFolder)
	if state == nil {
		p.store, err = store.Open(folder)
		return err
	}
	prefix := SharedPrefix + filepath.Base(p.o.Setup.State) + "/"
	kept := &files{state: state, prefix: prefix + filesPrefix, folder: p.o.Setup.State}
	if err := kept.restore(); err != nil {
		return err
	}
	p.store, err = store.Shared(state, prefix, folder, kept.changes)
	return err
}

// times sets how often and how long things are done.
func times(to *control.Options, m *config.Machinery) {
	to.ShutdownDeletionInterval, to.ShutdownDeletionRetries = defaultBetween, defaultTimes
	a := m.Autoscaler
	if a == nil {
		to.ShutdownDeletionInterval = cmp.Or(m.Drain.RetryBackoff, defaultBetween)
		to.ShutdownDeletionRetries = cmp.Or(m.Drain.MaxRetries, defaultTimes)
		return
	}
	to.Scale.DeleteRetry = a.DeletionRetryInterval
	to.Scale.ThrottleReservations = a.ReservationThrottling == nil || *a.ReservationThrottling
	to.UpdateInterval, to.UpdateIntervalWhenExpecting = a.UpdateInterval, a.UpdateIntervalWhenExpecting
	to.FailureThreshold = a.FailureThreshold
	to.ShutdownDeletionInterval = cmp.Or(a.ShutdownDeletionInterval, defaultBetween)
	to.ShutdownDeletionRetries = cmp.Or(a.ShutdownDeletionRetries, defaultTimes)
}

// follow tells when there is more room, or less.
func (p *Provider) follow() {
	for {
		changed := p.control.Changed()
		p.Changed()
		select {
		case <-changed:
		case <-p.life.Done():
			return
		}
	}
}

// observe hands on what happens.
func (p *Provider) observe(e store.Entry) {
	if e.Kind == store.Gone {
		p.hosts.forget(e.Request)
	}
	p.meter.count(e)
	if p.o.Observe != nil {
		p.o.Observe(e)
	}
}

// Close implements provider.Provider: machines stay, with the jobs on them.
func (p *Provider) Close() error {
	p.closing.Do(func() { p.closed = p.shut(closeTime) })
	return p.closed
}

// End implements provider.Ender.
func (p *Provider) End(removed bool) error {
	p.closing.Do(func() {
		limit := closeTime
		if removed || p.endsMachines() {
			p.control.DeleteOnClose()
			if removed {
				p.control.DeleteVolumesOnClose()
			}
			limit += p.between * time.Duration(p.times)
		}
		p.closed = p.shut(limit)
		if removed && p.closed == nil {
			p.closed = p.leave()
		}
	})
	return p.closed
}

// endsMachines reports whether machines without jobs end with the manager.
func (p *Provider) endsMachines() bool {
	m := p.o.Machinery
	return m.Autoscaler != nil && m.Autoscaler.DeleteInstancesOnShutdown || m.Machine != nil && m.Drain.Enabled
}

// leave removes what is kept of a fleet that has no machines and no entry any more.
func (p *Provider) leave() error {
	left := 0
	status := p.control.Status()
	for _, m := range status.Machines {
		left++
		p.o.Log.Error("a machine of a removed runner could not be ended; it is tried again when rung starts", "machine", cmp.Or(m.Instance, m.Request), "pool", m.Pool)
	}
	for _, v := range status.Volumes {
		left++
		p.o.Log.Error("a volume of a removed runner could not be ended; it is tried again when rung starts", "volume", v.ID, "project", v.Name)
	}
	if left > 0 {
		return nil
	}
	p.info.Removed = true
	return p.info.write(p.o.Setup.State)
}

// shut ends what was begun, the loop within a limit.
func (p *Provider) shut(limit time.Duration) error {
	var all []error
	if p.Provider != nil {
		all = append(all, p.Provider.Close())
	}
	p.end()
	if p.control != nil {
		all = append(all, bounded(limit, p.control.Close))
	}
	p.busy.End()
	if p.hosts != nil {
		p.hosts.close()
	}
	if p.store != nil {
		all = append(all, p.store.Close())
	}
	for _, g := range p.groups {
		all = append(all, bounded(closeTime, g.Shutdown))
	}
	return errors.Join(all...)
}

func bounded(d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return do(ctx)
}
