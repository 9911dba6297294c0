package manager

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/machines"
	"github.com/rungci/rung/manager/supply"
)

// occupied is a level on a machine with one image, which a job uses.
type occupied struct {
	executor.Executor
	size int64
}

func (o occupied) Stored(context.Context) (*executor.Stock, error) {
	return &executor.Stock{Things: []executor.Stored{{Kind: executor.StoredImage, Place: "engine", ID: "sha256:1", Size: o.size, InUse: true}}}, nil
}

func (o occupied) Discard(context.Context, executor.Stored) error { return nil }
func (o occupied) Sweep(context.Context) error                    { return nil }
func (o occupied) Close() error                                   { return nil }

func TestTheDisksOfOtherMachinesAreThoseThatWereLookedAt(t *testing.T) {
	const size = 1 << 20
	m := &Manager{o: Options{Log: slog.New(slog.DiscardHandler), State: t.TempDir()}, running: map[*run]bool{}, config: &config.Config{}}
	m.disk = disk.New(disk.Options{Limits: space{m}.limits, Storers: space{m}.storers, Log: m.o.Log})
	m.levels = newLevels(m.o.Log, func(_ context.Context, r *config.Runner, _ executor.Level) (executor.Executor, error) {
		if placeOf(r) == "ssh://ci@full:22" {
			return occupied{size: 3 * size}, nil
		}
		return occupied{size: size}, nil
	})
	entryOf := func(r *config.Runner) *entry { return &entry{manager: m, log: m.o.Log, runner: r} }
	overSSH := func(host string) *entry {
		return entryOf(&config.Runner{Executor: "ssh", SSH: &config.SSH{User: "ci", Host: host, Port: "22"}})
	}
	here, builder, again, full, unseen := entryOf(&config.Runner{Executor: "shell"}), overSSH("builder"), overSSH("builder"), overSSH("full"), overSSH("unseen")
	engine := entryOf(&config.Runner{Executor: "docker", Docker: &config.Docker{Host: "ssh://ci@engine"}})
	fleet := entryOf(&config.Runner{Executor: "instance", SSH: &config.SSH{User: "ci", Host: "template", Port: "22"}})
	fleet.supply = &supply.Supply{}
	fleet.machines = machines.New(machines.Options{
		Connect: func(context.Context, provider.Access) (host.Host, error) { return local.New(), nil },
		Open: func(context.Context, executor.Level, executor.Setup) (executor.Executor, error) {
			return occupied{size: size}, nil
		},
		Setup: executor.Setup{State: t.TempDir()}, Limits: space{m}.limits, Note: func(err error) { t.Error(err) },
	})
	t.Cleanup(fleet.machines.Close)
	entries := []*entry{here, builder, again, full, unseen, engine, fleet}
	use := func() {
		for _, e := range []*entry{here, builder, again, full, engine} {
			if room, want := (space{m}).roomFor(t.Context(), e), e != full || m.config.Disk == (config.Disk{}); room != want {
				t.Errorf("%s has room: %v", cmp.Or(placeOf(e.settings()), "this machine"), room)
			}
		}
		l, err := fleet.machines.Level(t.Context(), &provider.Machine{Name: "machine-1", Life: executor.NewLife()}, executor.None)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if err := l.Room(t.Context()); err != nil {
			t.Error(err)
		}
	}

	use()
	if all := (space{m}).elsewhere(entries); len(all) > 0 {
		t.Errorf("without limits there are %v", all)
	}
	m.config.Disk = config.Disk{Budget: 2 * size}
	if all := (space{m}).elsewhere(entries); len(all) > 0 {
		t.Errorf("before any is looked at there are %v", all)
	}
	use()
	all := space{m}.elsewhere(entries)
	want := []string{"machine-1", "ssh://ci@builder:22", "ssh://ci@engine", "ssh://ci@full:22"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Fatalf("there are %q, not %q", got, want)
	}
	for place, s := range all {
		used := int64(size)
		if place == "ssh://ci@full:22" {
			used *= 3
		}
		if s.Budget != 2*size || s.Total() != used || (s.Waiting != "") != (used > s.Budget) {
			t.Errorf("that of %s is %+v", place, s)
		}
	}
	if !strings.Contains(full.unable, "on ssh://ci@full:22 ") || !strings.Contains(full.unable, "disk.budget") {
		t.Errorf("the entry says that it cannot run jobs because %q", full.unable)
	}
	if all := (space{m}).elsewhere([]*entry{here, builder}); len(all) != 1 || all["ssh://ci@builder:22"] == nil {
		t.Errorf("when two entries are left there are %v", all)
	}
}
