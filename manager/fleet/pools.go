package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/manager/config"
)

// onePool is the name of the pool of an entry that names none.
const onePool = "default"

// manyMachines is how many machines of Docker Machine there may be where the entry has no limit.
const manyMachines = 1000

// DockerMachine is the plugin of executor docker+machine.
const DockerMachine = "docker-machine"

// pool is a kind of machines.
type pool struct {
	scale   scale.Pool
	control control.Pool
	fresh   bool // each of its machines is for one job
}

// Source is who makes the machines of a pool.
type Source struct {
	Pool   string
	Plugin string
	// Key is that of the entry which names the plugin: autoscaler.plugin.
	Key string
	// Options are those of the plugin, and Table is where the entry has them, as config.TableError says it.
	Options map[string]any
	Table   string

	pool   config.Pool
	number int // of the pool in the configuration
}

// Sources are those of the pools of an entry.
func Sources(m *config.Machinery) (all []Source) {
	for i, of := range poolsOf(m) {
		s := Source{Pool: of.Name, Plugin: of.Plugin, Key: "autoscaler.plugin", Options: of.PluginConfig, Table: config.GroupOptions, pool: of, number: i}
		if i < len(m.Fleet.Pools) && m.Fleet.Pools[i].Plugin != "" {
			s.Key = fmt.Sprintf("fleet.pools[%d].plugin", i)
		}
		switch {
		case m.Machine != nil:
			s.Table, s.Key = config.MachineOptions, "machine.MachineDriver"
		case i < len(m.Fleet.Pools) && (m.Fleet.Pools[i].PluginConfig != nil || of.Plugin != m.Autoscaler.Plugin):
			s.Table = config.PoolOptions(i)
		}
		all = append(all, s)
	}
	return all
}

// group is what errors about options call the group.
func (s *Source) group() string { return fmt.Sprintf("the instance group %q", s.Plugin) }

// WrongOptions is an error of an instance group, with what is wrong with its options as configurations place it. Other errors stay as they are.
func (s *Source) WrongOptions(err error) error {
	var wrong options.Errors
	if errors.As(err, &wrong) {
		out := &pluginoption.Errors{Of: s.group()}
		for _, one := range wrong {
			out.All = append(out.All, &pluginoption.Error{Pointer: s.pointer(one.Pointer), Err: errors.New(one.Message)})
		}
		err = out
	}
	return &config.TableError{Table: s.Table, Err: err}
}

// dockerMachineKeys are the keys of [runners.machine] for the options of group docker-machine.
var dockerMachineKeys = map[string]string{
	"driver": "MachineDriver", "name": "MachineName", "machine_options": "MachineOptions", "machine_options_with_name": "MachineOptionsWithName",
}

// pointer leads to an option as the table of the entry has it.
func (s *Source) pointer(pointer string) string {
	if s.Table != config.MachineOptions {
		return pointer
	}
	steps := strings.Split(pointer, "/")
	if len(steps) > 1 {
		steps[1] = cmp.Or(dockerMachineKeys[steps[1]], steps[1])
	}
	return strings.Join(steps, "/")
}

// machines are the pools that the configuration has, with their groups initialised.
func (p *Provider) machines(ctx context.Context, before *lineage) ([]*pool, error) {
	known, numbers := map[string]*group.Group{}, map[string]int{}
	var all []*pool
	sources := Sources(p.o.Machinery)
	pools := poolsOf(p.o.Machinery)
	var volumeless error // the first group that has no volumes where jobs want some; others may have them
	volumes := false
	for i, of := range pools {
		made := &pool{scale: kindOf(of, p.o.Machinery), control: controlOf(of, p.o.Machinery)}
		text, err := json.Marshal(of.PluginConfig)
		if err != nil {
			return nil, fmt.Errorf("plugin_config cannot be JSON, which plugins read: %w", err)
		}
		name := of.Plugin + "\n" + string(text)
		if known[name] == nil {
			numbers[name] = before.number(pools, of, text)
			g, err := p.group(ctx, of, numbers[name])
			if err != nil {
				err = fmt.Errorf("pool %s: the plugin %s: %w", of.Name, of.Plugin, sources[i].WrongOptions(err))
				if !p.o.Setup.Removed {
					return nil, err
				}
				p.o.Log.Warn("a pool of the removed runner cannot be opened; its machines are ended as those of a pool that was taken from the configuration", "error", err)
				delete(before.taken, numbers[name])
				continue
			}
			known[name] = g
			p.groups = append(p.groups, g)
			if err := sources[i].CheckVolumes(p.o.Machinery, g.NoVolumes()); err == nil {
				volumes = true
			} else if volumeless == nil {
				volumeless = fmt.Errorf("pool %s: the plugin %s: %w", of.Name, of.Plugin, err)
			}
		}
		made.control.Group = known[name]
		if err := made.complete(ctx, len(p.o.Machinery.Fleet.Pools) == 0); err != nil && !p.o.Setup.Removed {
			return nil, fmt.Errorf("pool %s: %w", of.Name, err)
		}
		before.uses(numbers[name], of.Plugin, text, made)
		made.scale.Volumes, made.scale.Apart = p.o.Machinery.Autoscaler != nil && !isolated(p.o.Machinery), p.o.Machinery.Apart
		made.fresh = made.scale.Slots == 1 && made.scale.MaxUses == 1 || isolated(p.o.Machinery)
		all = append(all, made)
	}
	if !volumes && !p.o.Setup.Removed {
		return all, volumeless
	}
	return all, nil
}

// poolsOf are the pools of an entry, each with its plugin.
func poolsOf(m *config.Machinery) []config.Pool {
	pools := slices.Clone(m.Fleet.Pools)
	if len(pools) == 0 {
		pools = []config.Pool{{Name: onePool}}
	}
	for i := range pools {
		to := &pools[i]
		if m.Machine != nil {
			to.Plugin, to.PluginConfig = DockerMachine, dockerMachine(m)
			continue
		}
		to.Plugin = cmp.Or(to.Plugin, m.Autoscaler.Plugin)
		if to.Plugin == m.Autoscaler.Plugin && to.PluginConfig == nil {
			to.PluginConfig = m.Autoscaler.PluginConfig
		}
	}
	return pools
}

// dockerMachine are the options of group docker-machine.
func dockerMachine(of *config.Machinery) map[string]any {
	m := of.Machine
	options := map[string]any{"driver": m.MachineDriver, "name": cmp.Or(m.MachineName, "rung-%s"), "max_size": cmp.Or(of.Limit, manyMachines)}
	if len(m.MachineOptions) > 0 {
		options["machine_options"] = m.MachineOptions
	}
	if len(m.MachineOptionsWithName) > 0 {
		options["machine_options_with_name"] = m.MachineOptionsWithName
	}
	return options
}

// kindOf is a pool as the decision has it.
func kindOf(of config.Pool, m *config.Machinery) scale.Pool {
	out := scale.Pool{
		Name: of.Name, Shape: scale.Shape{CPUs: of.CPUs, Memory: of.Memory, Disk: of.Disk, GPUs: of.GPUs, Arch: of.Arch, OS: of.OS}, Spot: of.Spot,
		Price: of.Price, SuspendedPrice: of.SuspendedPrice, Billing: scale.Billing{Granularity: of.BillingStep, Minimum: of.BillingMinimum}, BootTimeout: of.BootTimeout,
	}
	if a := m.Autoscaler; a != nil {
		out.Slots, out.MaxUses = m.Slots(of), m.Uses(of)
		out.MaxInstances = max(0, cmp.Or(of.MaxInstances, a.MaxInstances))
		out.Throttle = scale.Throttle{Limit: float64(a.ScaleThrottle.Limit), Burst: a.ScaleThrottle.Burst}
		out.Shape.OS, out.Shape.Arch = cmp.Or(of.OS, a.Connector.OS), cmp.Or(of.Arch, a.Connector.Arch)
		if vm := a.VMIsolation; vm.Enabled { // where jobs run
			out.Shape.OS, out.Shape.Arch = cmp.Or(vm.Connector.OS, out.Shape.OS), cmp.Or(vm.Connector.Arch, out.Shape.Arch)
		}
		return out
	}
	out.Slots = 1
	out.MaxUses = max(0, cmp.Or(of.MaxUseCount, m.Machine.MaxBuilds))
	out.MaxInstances = max(0, cmp.Or(of.MaxInstances, m.Limit))
	out.MaxComing = max(0, m.Machine.MaxGrowthRate)
	return out
}

// controlOf is a pool as the loop has it, without its group.
func controlOf(of config.Pool, m *config.Machinery) control.Pool {
	out := control.Pool{Shape: of.Shape, Zone: of.Zone, Spot: of.Spot, Labels: of.Labels, Suspend: m.Fleet.Suspend}
	if of.Suspend != nil {
		out.Suspend = *of.Suspend
	}
	out.Suspend = max(0, out.Suspend)
	return out
}

// group makes and initialises a group.
func (p *Provider) group(ctx context.Context, of config.Pool, number int) (*group.Group, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("it was not ready within %s", openTime))
	defer cancel()
	basic, err := p.o.Group(ctx, of.Plugin, of.PluginConfig)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(p.o.Setup.State, groupFolder, pluginstore.ShortOf(of.Plugin)) // the same for every version
	owner := p.info.Name
	if number > 0 { // each is of a fleet alone
		owner, folder = fmt.Sprintf("%s-%d", owner, number), fmt.Sprintf("%s-%d", folder, number)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	settings := group.Settings{Owner: owner, State: folder, Labels: map[string]string{"rung-runner": p.o.Name}}
	for name, value := range p.o.Machinery.Fleet.Labels {
		settings.Labels[name] = value
	}
	if settings.ConnectorConfig, err = connectorOf(p.o.Machinery); err != nil {
		return nil, err
	}
	g := group.Adapt(basic)
	if _, err := g.Init(ctx, pluginhost.Logger(p.o.Log.With("plugin", of.Plugin)), settings); err != nil {
		return nil, err
	}
	return g, nil
}

// connectorOf is how the configuration says that machines are reached.
func connectorOf(m *config.Machinery) (group.ConnectorConfig, error) {
	if m.Autoscaler == nil {
		return group.ConnectorConfig{}, nil
	}
	c := m.Autoscaler.Connector
	out := group.ConnectorConfig{
		OS: c.OS, Arch: c.Arch, Protocol: group.Protocol(c.Protocol), ProtocolPort: c.ProtocolPort, Username: c.Username, Password: c.Password,
		UseStaticCredentials: c.UseStaticCredentials, Timeout: c.Timeout,
	}
	if c.KeyPath == "" {
		return out, nil
	}
	var err error
	if out.Key, err = os.ReadFile(c.KeyPath); err != nil {
		return out, fmt.Errorf("connector_config.key_path: %w", err)
	}
	return out, nil
}

// complete fills in what the group says of the pool's machines. alone is that the configuration says nothing of their kind.
func (p *pool) complete(ctx context.Context, alone bool) error {
	info := p.control.Group.Info()
	if info.MaxSize > 0 && info.MaxSize < math.MaxInt32 && (p.scale.MaxInstances == 0 || info.MaxSize < p.scale.MaxInstances) {
		p.scale.MaxInstances = info.MaxSize
	}
	if !p.control.Group.Can().Offers || p.control.Shape == "" && !alone {
		return nil
	}
	offers, err := p.control.Group.Offers(ctx)
	if err != nil {
		return fmt.Errorf("the shapes of its machines cannot be listed: %w", err)
	}
	var names []string
	for _, o := range offers {
		names = append(names, o.Shape)
		if o.Shape != p.control.Shape && !(alone && len(offers) == 1) || p.control.Zone != "" && o.Zone != "" && o.Zone != p.control.Zone || o.Spot != p.control.Spot && !alone {
			continue
		}
		p.offered(o)
		return nil
	}
	if p.control.Shape == "" {
		return nil
	}
	return fmt.Errorf("the plugin %w", noShape(p.control.Shape, names))
}

// offered takes what a group says of a shape, where the configuration does not.
func (p *pool) offered(o group.Offer) {
	p.control.Shape, p.control.Spot, p.scale.Spot = o.Shape, o.Spot, o.Spot
	s := &p.scale.Shape
	s.CPUs, s.Memory, s.Disk, s.GPUs = cmp.Or(s.CPUs, o.CPUs), cmp.Or(s.Memory, o.Memory), cmp.Or(s.Disk, o.Disk), cmp.Or(s.GPUs, o.GPUs)
	s.OS, s.Arch = cmp.Or(s.OS, o.OS), cmp.Or(s.Arch, o.Arch)
	p.scale.Price, p.scale.SuspendedPrice = cmp.Or(p.scale.Price, o.Price), cmp.Or(p.scale.SuspendedPrice, o.SuspendedPrice)
	p.scale.Billing.Granularity, p.scale.Billing.Minimum = cmp.Or(p.scale.Billing.Granularity, o.Step), cmp.Or(p.scale.Billing.Minimum, o.Minimum)
}

// policyOf is how many machines there are.
func policyOf(m *config.Machinery) (scale.Policy, error) {
	periods, err := m.Schedule()
	if err != nil {
		return nil, err
	}
	if f := m.Fleet; f.Policy == config.AdaptivePolicy {
		return &scale.Adaptive{Worth: f.Worth, Memory: f.Memory, Linger: f.Linger, Patience: f.Patience, Hedge: f.Hedge, Policies: periods}, nil
	}
	return &scale.Classic{Policies: periods}, nil
}
