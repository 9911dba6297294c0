package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/machines"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/steps/event"
)

// openSupply opens what the machines of an entry come from, if that is a provider.
func (e *entry) openSupply(p *config.Provider) error {
	if p == nil {
		return nil
	}
	m := e.manager
	if m.o.Provider == nil || m.o.Connect == nil {
		return errors.New("this program has no providers of machines")
	}
	e.from = p
	folder := folderOf(e)
	var closed func() *supply.Fleet
	if p.Machinery != nil {
		closed = func() *supply.Fleet { return supply.Closed(folder, m.o.Shared, e.provides().Machinery) }
	}
	e.supply = supply.New(supply.Options{
		Open: func(ctx context.Context, removed bool) (provider.Provider, error) {
			settings := *e.settings()
			settings.Provider = e.provides()
			opened, err := m.o.Provider(ctx, &settings, provider.Setup{Owner: m.owner(), State: folder, Vault: &vault{e.records, filepath.Base(folder)}, Removed: removed})
			return opened, placed(m, &settings, config.ProviderOptions, err)
		},
		Closed: closed, Terms: termsOf(p), Log: e.log,
	})
	e.machines = machines.New(machines.Options{
		Connect: func(ctx context.Context, to provider.Access) (host.Host, error) { return m.o.Connect(ctx, to) },
		Open: func(ctx context.Context, level executor.Level, setup executor.Setup) (executor.Executor, error) {
			return m.o.Open(ctx, e.settings(), level, setup)
		},
		Made:    func() string { return madeOf(e.settings()) },
		Setup:   executor.Setup{Program: m.o.Program, State: m.ledgers(), Lease: executor.Lease{Owner: m.owner(), Keep: m.o.Keep, Elsewhere: m.o.Shared != nil}},
		Adopted: m.adopted, Limits: space{m}.limits, Log: e.log,
		Note: func(err error) { e.log.Warn("job warning", "error", err) },
	})
	return nil
}

// vault is what the records of a runner keep for a provider; it is another one for each folder.
type vault struct {
	records *store.Runner
	folder  string
}

// Keep implements provider.Vault.
func (v *vault) Keep(name string, text []byte) error { return v.records.Keep(v.folder+"-"+name, text) }

// Kept implements provider.Vault.
func (v *vault) Kept(name string) ([]byte, error) { return v.records.Kept(v.folder + "-" + name) }

// placed says where in the configuration the options are that an error of a plugin is about.
func placed(m *Manager, r *config.Runner, table string, err error) error {
	if read := m.read.Load(); read != nil && err != nil {
		return read.Placed(r, table, err)
	}
	return err
}

// providers is the folder of what a runner's provider keeps.
func providers(m *Manager, id string) string { return filepath.Join(m.o.State, "providers", id) }

// changeSupply follows a changed [runners.provider]. Jobs that run keep their machines. The caller holds the entry's lock.
func (e *entry) changeSupply(p *config.Provider) {
	before := e.from
	switch {
	case before == nil && p == nil:
	case before == nil, p == nil, !config.SamePlugin(before.Name, p.Name), before.File != p.File, (len(before.Hosts) == 0) != (len(p.Hosts) == 0), (before.Machinery == nil) != (p.Machinery == nil):
		e.log.Warn("the new provider takes effect after a restart; drain the manager first, because running jobs use machines of the current one")
	default:
		e.from = p
		old := *before
		old.AllowedNeeds = p.AllowedNeeds // which is nothing to the provider
		if !reflect.DeepEqual(&old, p) {
			e.manager.aside.Go(func() { e.supply.Change(termsOf(e.provides())) })
		}
	}
}

// provides is what the entry's supply is made of.
func (e *entry) provides() *config.Provider {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.from
}

func termsOf(p *config.Provider) supply.Terms {
	key := "runners.provider.acquire_timeout"
	if p.Machinery != nil && p.Machinery.Autoscaler != nil {
		key = "runners.autoscaler.instance_acquire_timeout"
	}
	return supply.Terms{Needs: needsOf(p.Needs), Timeout: p.AcquireTimeout, TimeoutKey: key}
}

func needsOf(n config.MachineNeeds) provider.Needs {
	return provider.Needs{OS: n.OS, Arch: n.Arch, CPUs: n.CPUs, Memory: n.Memory, Disk: n.Disk, GPUs: n.GPUs, Labels: n.Labels}
}

// folderOf is the folder of what an entry's provider keeps.
func folderOf(e *entry) string {
	folder := providers(e.manager, e.records.ID())
	if e.twin > 0 {
		folder += "-" + strconv.Itoa(e.twin)
	}
	return folder
}

func (e *entry) closeSupply(removed bool) {
	if e.supply == nil {
		return
	}
	e.machines.Close()
	if err := e.supply.Close(removed); err != nil {
		e.log.Warn("cannot close the provider", "error", err)
	}
}

// provide lets a job with a reservation get its level with its machine.
func (r *run) provide(o *job.Options) {
	if r.reserved == nil {
		return
	}
	o.Reserved = r.reserved
	if o.Level != nil || o.Refused != nil {
		return
	}
	o.Acquire = func(ctx context.Context, reserved *supply.Reservation, report executor.Reporter) (executor.Executor, error) {
		r.reserved = reserved
		if r.entry.supply == nil {
			return nil, errNoProvider
		}
		what := provider.Job{
			ID: strconv.FormatInt(r.from.ID, 10), Project: strconv.FormatInt(r.from.Info.ProjectID, 10), ProjectName: r.describe().Identity.Project, Needs: r.needs,
			Protected: yes(r.from.Git.Protected, false), Volume: r.volume,
		}
		err := r.entry.supply.Acquire(ctx, reserved, what, report, func(on *provider.Machine) error {
			level, err := r.entry.machines.Level(ctx, on, levelOn(on, r.level))
			if err != nil {
				return err
			}
			if err := level.Room(ctx); err != nil { // a machine that stays full is ended, or rests
				return errors.Join(err, level.Close())
			}
			r.settle(level)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if strongest := r.on.Machine().Level; strongest != "" && executor.RankOf(r.on) < r.level.Rank() {
			return nil, event.NewError(event.CodeEnvironmentInvalid, "the job is to run on isolation level %q, and its machine %s is for level %q, which is weaker", r.level, r.on.Machine().Name, strongest)
		}
		return r.on, r.admit(r.on)
	}
}

var errNoProvider = errors.New("the job ran on a machine of a provider, and its entry has no [runners.provider] any more")

// levelOn is the level that is opened on a machine: what the machine is for, or what the job wants. A machine of the job's own needs no other
// isolation.
func levelOn(on *provider.Machine, wanted executor.Level) executor.Level {
	switch {
	case on.Level != "":
		return on.Level
	case wanted == executor.Instance:
		return executor.None
	}
	return wanted
}

// recoverMachine gets the machine of a job of the process before, and its level there.
func (r *run) recoverMachine(ctx context.Context, level executor.Level) (executor.Executor, error) {
	if r.entry.supply == nil {
		return nil, errNoProvider
	}
	on, err := r.entry.supply.Recover(ctx, *r.reserved)
	if err != nil {
		return nil, fmt.Errorf("the machine of the job: %w", err)
	}
	there, err := r.entry.machines.Level(ctx, on, level)
	if err != nil {
		return nil, fmt.Errorf("the machine %s: %w", on.Name, err)
	}
	r.settle(there)
	return there, nil
}

// settle notes where the job runs, and shows it to others.
func (r *run) settle(on *machines.Level) {
	r.entry.manager.mu.Lock()
	defer r.entry.manager.mu.Unlock()
	r.on, r.running.Machine = on, on.Machine().Name
}

// giveBack gives back what a job had of a provider. The machine learns how the job ended there, if it began there.
func (r *run) giveBack(ended job.Ended) {
	if r.reserved == nil || r.entry.supply == nil {
		return
	}
	fault := ""
	if r.on != nil {
		if unprepared(ended) {
			r.on.Failed(ended.Err)
		} else if !ended.Prepared.IsZero() {
			r.on.Failed(nil)
		}
		fault = r.on.Fault()
		_ = r.on.Close() // it cannot fail
	}
	r.entry.supply.Release(r.reserved.Key, fault)
}

// rankIn is that of a level within its machine, whoever else is there.
func rankIn(level executor.Executor) int {
	if on, ok := level.(*machines.Level); ok {
		level = on.Executor
	}
	return executor.RankOf(level)
}
