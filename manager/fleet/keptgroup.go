package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/manager/config"
)

// groupsName is the name of the groups in the vault.
const groupsName = "fleet-groups"

// keptGroup is a group that the configuration has, or had when its machines were made. Its options may hold secrets, so it is kept in a vault.
type keptGroup struct {
	// Number tells its owner and its folder from those of the fleet's other groups. It stays the same.
	Number  int             `json:"number"`
	Plugin  string          `json:"plugin"`
	Options json.RawMessage `json:"options"`
	Pools   []keptPool      `json:"pools"`
}

// keptPool is what must be known of a pool to end its machines, and to bill them.
type keptPool struct {
	Name    string        `json:"name"`
	Shape   string        `json:"shape,omitempty"`
	Zone    string        `json:"zone,omitempty"`
	Spot    bool          `json:"spot,omitempty"`
	Slots   int           `json:"slots"`
	Price   float64       `json:"price,omitempty"`
	Asleep  float64       `json:"suspended_price,omitempty"`
	Billing scale.Billing `json:"billing,omitzero"`
}

func (g *keptGroup) sameAs(plugin string, options []byte) bool {
	return g.isOf(plugin) && bytes.Equal(g.Options, options)
}

func (g *keptGroup) isOf(plugin string) bool {
	return pluginstore.ShortOf(g.Plugin) == pluginstore.ShortOf(plugin)
}

func (g *keptGroup) has(pool string) bool {
	return slices.ContainsFunc(g.Pools, func(p keptPool) bool { return p.Name == pool })
}

// config is the configuration of the group's machines.
func (g *keptGroup) config() (of config.Pool, err error) {
	of.Plugin = g.Plugin
	decoder := json.NewDecoder(bytes.NewReader(g.Options))
	decoder.UseNumber() // as it was written
	err = decoder.Decode(&of.PluginConfig)
	return of, err
}

// lineage is the groups that a fleet has and had, and which of them are those of the configuration.
type lineage struct {
	before []keptGroup
	taken  map[int]bool // numbers of those that the configuration has
	now    []keptGroup
}

func lineageOf(setup *Options) (*lineage, error) {
	l := &lineage{taken: map[int]bool{}}
	if setup.Setup.Vault == nil {
		return l, nil
	}
	text, err := setup.Setup.Vault.Kept(groupsName)
	if err != nil || text == nil {
		return l, err
	}
	return l, json.Unmarshal(text, &l.before)
}

// number is that of a group of the configuration, of which these are all: one that it had before, also if its options are others now, or a new one.
func (l *lineage) number(all []config.Pool, of config.Pool, options []byte) int {
	pick := func(is func(*keptGroup) bool) (int, bool) {
		i := slices.IndexFunc(l.before, func(g keptGroup) bool { return !l.taken[g.Number] && is(&g) })
		if i < 0 {
			return 0, false
		}
		return l.before[i].Number, true
	}
	n, known := pick(func(g *keptGroup) bool { return g.sameAs(of.Plugin, options) })
	if !known {
		n, known = pick(func(g *keptGroup) bool { return g.isOf(of.Plugin) && g.has(of.Name) && !wantedBy(all, g) })
	}
	for !known && (l.taken[n] || slices.ContainsFunc(l.before, func(g keptGroup) bool { return g.Number == n })) {
		n++
	}
	l.taken[n] = true
	return n
}

// wantedBy reports whether one of the pools has exactly this group.
func wantedBy(all []config.Pool, g *keptGroup) bool {
	return slices.ContainsFunc(all, func(of config.Pool) bool {
		text, err := json.Marshal(of.PluginConfig)
		return err == nil && g.sameAs(of.Plugin, text)
	})
}

// uses notes that a pool of the configuration has a group.
func (l *lineage) uses(number int, plugin string, options []byte, p *pool) {
	i := slices.IndexFunc(l.now, func(g keptGroup) bool { return g.Number == number })
	if i < 0 {
		i = len(l.now)
		l.now = append(l.now, keptGroup{Number: number, Plugin: plugin, Options: options})
	}
	l.now[i].Pools = append(l.now[i].Pools, keptPool{
		Name: p.scale.Name, Shape: p.control.Shape, Zone: p.control.Zone, Spot: p.control.Spot, Slots: p.scale.Slots, Price: p.scale.Price, Asleep: p.scale.SuspendedPrice, Billing: p.scale.Billing,
	})
}

// groupNow is the number of the group of a pool of the configuration.
func (l *lineage) groupNow(pool string) (int, bool) {
	for _, g := range l.now {
		if g.has(pool) {
			return g.Number, true
		}
	}
	return 0, false
}

// retired are the groups that the fleet had, each with those of its pools that it has no more, and of which there are machines. A pool that has another group now
// gives its machines of the group before to one of another name: renamed are their records.
func (l *lineage) retired(state *store.State) (groups []keptGroup, renamed []scale.InstanceRecord) {
	for _, g := range l.before {
		left := g
		left.Pools = nil
		for _, p := range g.Pools {
			number, exists := l.groupNow(p.Name)
			if exists && number == g.Number {
				continue
			}
			was := p.Name
			if mark := fmt.Sprintf(" (group %d)", g.Number); exists && !strings.HasSuffix(was, mark) {
				p.Name += mark
			}
			machines := 0
			for i := range state.Fleet.Instances {
				one := &state.Fleet.Instances[i]
				if one.Pool == was && was != p.Name {
					one.Pool = p.Name
					renamed = append(renamed, *one)
				}
				if one.Pool == p.Name {
					machines++
				}
			}
			if machines > 0 {
				left.Pools = append(left.Pools, p)
			}
		}
		if len(left.Pools) > 0 {
			groups = append(groups, left)
		}
	}
	return groups, renamed
}

// loaded is a store whose state was read already.
type loaded struct {
	store.Store
	state store.State
}

// Load implements store.Store.
func (l *loaded) Load() (store.State, error) { return l.state, nil }

// loadedFenced is one that another process can take away.
type loadedFenced struct {
	loaded
	fenced store.Fenced
}

// Lost implements store.Fenced.
func (l *loadedFenced) Lost() <-chan struct{} { return l.fenced.Lost() }

// retire adds the pools that the configuration has no more, and that have machines, with groups to end those. What cannot be started is told.
func (p *Provider) retire(ctx context.Context, l *lineage, state *store.State) (pools []*pool, err error) {
	groups, renamed := l.retired(state)
	if len(renamed) > 0 { // before the vault says so, too
		if err := p.store.Commit(store.Change{Created: state.Fleet.Created, Machines: renamed}); err != nil {
			return nil, err
		}
	}
	for _, g := range groups {
		made, err := p.reopen(ctx, l, &g)
		if err != nil {
			p.o.Log.Error("cannot start the plugin of a removed pool, so its machines stay; rung retries at each reload",
				"plugin", g.Plugin, "machines", strings.Join(machinesOf(state, &g), ", "), "error", err)
		}
		for _, was := range g.Pools {
			one := &pool{
				scale:   scale.Pool{Name: was.Name, Spot: was.Spot, Slots: was.Slots, Price: was.Price, SuspendedPrice: was.Asleep, Billing: was.Billing, Retired: true},
				control: control.Pool{Group: made, Shape: was.Shape, Zone: was.Zone, Spot: was.Spot},
			}
			pools = append(pools, one)
			l.keep(&g, was)
		}
	}
	return pools, l.write(&p.o)
}

// reopen is the group of a pool that is retired: one of the configuration, or one that is started again.
func (p *Provider) reopen(ctx context.Context, l *lineage, g *keptGroup) (*group.Group, error) {
	if l.taken[g.Number] {
		return p.groups[slices.IndexFunc(l.now, func(now keptGroup) bool { return now.Number == g.Number })], nil
	}
	of, err := g.config()
	if err != nil {
		return nil, err
	}
	made, err := p.group(ctx, of, g.Number)
	if err == nil {
		p.groups = append(p.groups, made)
	}
	return made, err
}

// keep keeps a retired pool for another time.
func (l *lineage) keep(g *keptGroup, p keptPool) {
	i := slices.IndexFunc(l.now, func(now keptGroup) bool { return now.Number == g.Number })
	if i < 0 {
		i = len(l.now)
		l.now = append(l.now, keptGroup{Number: g.Number, Plugin: g.Plugin, Options: g.Options})
	}
	l.now[i].Pools = append(l.now[i].Pools, p)
}

func (l *lineage) write(o *Options) error {
	if o.Setup.Vault == nil {
		return nil
	}
	text, err := json.Marshal(l.now)
	if err != nil {
		return err
	}
	return o.Setup.Vault.Keep(groupsName, text)
}

// machinesOf are the names of the machines of a group's pools.
func machinesOf(state *store.State, g *keptGroup) (names []string) {
	for _, one := range state.Fleet.Instances {
		if g.has(one.Pool) {
			names = append(names, cmp.Or(one.Instance, one.Request))
		}
	}
	return names
}
