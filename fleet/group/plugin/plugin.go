// Package plugin runs instance groups that are programs of somebody else, through hashicorp/go-plugin over gRPC. To the rest of the program they are groups like any
// other.
//
// A plugin that hangs or crashes fails the calls that it has, with a *Failure that says which plugin and what; it is started again with the next call, and is given the settings
// of the first. What a call had done when its answer did not come is not known: it is a group.ErrUncertain where that matters.
package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/wire"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginhost/handshake"
)

// Prefix begins the name of an instance-group plugin's file.
const Prefix = "group-plugin-"

// Kind is the contract of instance-group plugins.
var Kind = &pluginhost.Kind{
	Name: "instance-group plugin", Prefix: Prefix, Services: map[int]string{handshake.Version: "rung.fleet.v1.InstanceGroup"}, Said: wire.FromStatus, Foreign: "fleeting-plugin-",
	Advice: "the protocol of fleeting's plugins is not public, so that their binaries cannot be used; build the plugin from its source " +
		"with the imports of sdk/instancegroup (docs/plugins.md, \"Port a fleeting plugin\")",
}

// Failure is a plugin that did not do what the contract says.
type Failure = pluginhost.Failure

// Config is what the configuration says of a plugin.
type Config struct {
	pluginhost.Config
	// CallTime is how long a call may take beside the context's deadline; 0 is 10 minutes.
	CallTime time.Duration
	// ShutdownTime is how long Shutdown may take beside the context's deadline, before the plugin is killed; 0 is 30 seconds.
	ShutdownTime time.Duration
}

const defaultShutdown = 30 * time.Second

// Group is a plugin as an instance group: it implements all of the contract, and Abilities says what of that the plugin can do.
type Group struct {
	config   Config
	settings group.Settings
	file     string
	remove   func()

	starting sync.Mutex // held while a process is started

	mu      sync.Mutex // guards the fields below
	process *pluginhost.Process
	info    group.ProviderInfo
	can     group.Abilities
	closed  bool
}

var (
	_ group.InstanceGroup  = (*Group)(nil)
	_ group.Abler          = (*Group)(nil)
	_ group.Lister         = (*Group)(nil)
	_ group.Watcher        = (*Group)(nil)
	_ group.Offerer        = (*Group)(nil)
	_ group.ShapeIncreaser = (*Group)(nil)
	_ group.Meter          = (*Group)(nil)
	_ group.Silencer       = (*Group)(nil)
)

// New is the group of a plugin, which Init starts.
func New(config Config) *Group { return &Group{config: config} }

// Init implements group.Basic: it starts the plugin and opens it. What the plugin writes goes to the configuration's log, else to log.
func (g *Group) Init(ctx context.Context, log hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	if g.config.Log == nil {
		g.config.Logger = log
	}
	file, remove, err := Kind.Verified(&g.config.Config)
	if err != nil {
		return group.ProviderInfo{}, err
	}
	g.settings, g.file, g.remove = settings, file, remove
	if _, err := g.running(ctx); err != nil {
		remove()
		return group.ProviderInfo{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.info, nil
}

// Abilities implements group.Abler.
func (g *Group) Abilities() group.Abilities {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.can
}

// Silent implements group.Silencer.
func (g *Group) Silent(waited time.Duration, why error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return why
	}
	return g.process.Silent("", waited, why)
}

// PID is that of the plugin's process, for tests of what happens when it ends.
func (g *Group) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process.PID()
}

// running is the process of the plugin. One that has ended is started again.
func (g *Group) running(ctx context.Context) (*pluginhost.Process, error) {
	g.starting.Lock()
	defer g.starting.Unlock()
	g.mu.Lock()
	closed, last := g.closed, g.process
	g.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("the %s %q was shut down", Kind.Name, g.config.Name)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case last != nil && last.Err() == nil:
		return last, nil
	}
	p, err := Kind.Start(ctx, &g.config.Config, g.file)
	if err != nil {
		return nil, err
	}
	opened, err := g.open(ctx, p)
	if err == nil {
		err = g.believe(p, opened)
	}
	if err != nil {
		p.Fail("was not used")
		return nil, err
	}
	return p, nil
}

// Check starts a plugin, holds the options of a configuration against its schema, and ends it. Its group is not opened, so that nothing is asked of a cloud, or changed there.
// checked is false where the plugin has no schema: what it takes is only known once its group is open.
func Check(ctx context.Context, config *Config) (checked bool, err error) {
	file, remove, err := Kind.Verified(&config.Config)
	if err != nil {
		return false, err
	}
	defer remove()
	p, err := Kind.Start(ctx, &config.Config, file)
	if err != nil {
		return false, err
	}
	defer p.Leave()
	_, checked, err = accepted(ctx, config, p)
	return checked, err
}

// accepted are the options of a configuration, which the schema of a process allows, if it has one.
func accepted(ctx context.Context, config *Config, p *pluginhost.Process) (options string, checked bool, err error) {
	call := p.Begin(ctx, "Describe", handshake.Silence)
	described, err := fleetv1.NewInstanceGroupClient(p.Conn).Describe(call.Ctx, &fleetv1.DescribeRequest{})
	call.End()
	if err = call.Failed(err); errors.Is(err, errors.ErrUnsupported) {
		return "", false, &Failure{Kind: Kind.Name, Plugin: p.Name(), Call: "Describe", What: "is a plugin of another kind", Err: err}
	} else if err != nil {
		return "", false, err
	}
	schema := described.GetOptionsSchema()
	if schema == "" {
		return config.OptionsText(), false, nil
	}
	options, err = Kind.CheckOptions(&config.Config, schema)
	return options, true, err
}

// open configures a process with options that it accepts.
func (g *Group) open(ctx context.Context, p *pluginhost.Process) (opened *fleetv1.OpenResponse, err error) {
	options, _, err := accepted(ctx, &g.config, p)
	if err != nil {
		return nil, err
	}
	client := fleetv1.NewInstanceGroupClient(p.Conn)
	err = p.Attend(ctx, g.callTime(), func(living context.Context) (func() error, error) {
		stream, err := client.Open(living, wire.EncodeSettings(g.settings, options))
		if err != nil {
			return nil, err
		}
		return func() error {
			response, err := stream.Recv()
			if opened == nil {
				opened = response
			}
			return err
		}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("opening the %s %q: %w", Kind.Name, g.config.Name, err)
	}
	return proto.CloneOf(opened), nil
}

// believe takes what a process says that its group is. One that is started again must be what it was.
func (g *Group) believe(p *pluginhost.Process, opened *fleetv1.OpenResponse) error {
	info, can := wire.DecodeOpened(opened)
	g.mu.Lock()
	defer g.mu.Unlock()
	var lie error
	switch {
	case info.ID == "":
		lie = errors.New("its group has no id")
	case info.MaxSize < 0:
		lie = fmt.Errorf("its group can have %d instances", info.MaxSize)
	case g.process != nil && (info.ID != g.info.ID || can != g.can):
		lie = fmt.Errorf("it was the group %q with %+v when it was started first, and is now %q with %+v", g.info.ID, g.can, info.ID, can)
	}
	if lie != nil {
		return &Failure{Kind: Kind.Name, Plugin: g.config.Name, Call: "Open", What: "says what cannot be", Err: lie}
	}
	g.process, g.info, g.can = p, info, can
	return nil
}

func (g *Group) callTime() time.Duration { return cmp.Or(g.config.CallTime, handshake.MaxSilence) }

// call makes one call of the plugin. answered is false where the plugin was asked and did not answer.
func (g *Group) call(ctx context.Context, name string, do func(ctx context.Context, client fleetv1.InstanceGroupClient, c *pluginhost.Call) error) (answered bool, err error) {
	p, err := g.running(ctx)
	if err != nil {
		return true, err // nothing was asked
	}
	c := p.Begin(ctx, name, g.callTime())
	defer c.End()
	err = do(c.Ctx, fleetv1.NewInstanceGroupClient(p.Conn), c)
	var lie *Failure
	if err == nil || errors.As(err, &lie) {
		return true, err
	}
	_, said := wire.FromStatus(err)
	return said, c.Failed(err)
}

// asked makes a call that has an effect, and returns the error of its answer.
func (g *Group) asked(ctx context.Context, name string, do func(ctx context.Context, client fleetv1.InstanceGroupClient) (*fleetv1.Error, error)) error {
	var failed *fleetv1.Error
	answered, err := g.call(ctx, name, func(ctx context.Context, client fleetv1.InstanceGroupClient, _ *pluginhost.Call) (err error) {
		failed, err = do(ctx, client)
		return err
	})
	switch {
	case err == nil:
		return wire.DecodeError(failed)
	case !answered && !errors.Is(err, errors.ErrUnsupported):
		return &group.Error{Kind: group.ErrUncertain, Message: err.Error(), Err: err}
	}
	return err
}

// Shutdown implements group.Shutdowner: it has the plugin shut its group down, in the time that there is, and ends it. One that is not ready by then is killed.
func (g *Group) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	closed, p := g.closed, g.process
	g.closed = true
	g.mu.Unlock()
	if closed || p == nil {
		return nil
	}
	defer g.remove()
	if p.Err() != nil {
		p.Kill()
		return nil
	}
	limit := cmp.Or(g.config.ShutdownTime, defaultShutdown)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the %s %q has not shut down within %s, and was killed", Kind.Name, g.config.Name, limit))
	defer cancel()
	c := p.Begin(ctx, "Shutdown", limit+time.Second)
	_, err := fleetv1.NewInstanceGroupClient(p.Conn).Shutdown(c.Ctx, &fleetv1.ShutdownRequest{})
	err = c.Failed(err)
	c.End()
	p.Finish(fmt.Errorf("the %s %q was shut down", Kind.Name, g.config.Name))
	if ctx.Err() != nil {
		p.Kill()
		return err
	}
	p.Leave()
	return err
}
