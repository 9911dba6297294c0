package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	providerv1 "github.com/rungci/rung/api/rung/provider/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/internal/pluginhost"
)

const (
	// releaseTime is how long a plugin may take to end a machine.
	releaseTime = 5 * time.Minute
	// watchPause is the pause between two attempts to hear of a machine from a plugin that has ended.
	watchPause = time.Second
)

// Provider is a plugin as a provider. A process of it that ends is started again with the next call, and finds the machines that there are.
type Provider struct {
	config Config
	setup  provider.Setup
	file   string
	remove func()
	life   context.Context // ends with Close
	end    context.CancelFunc

	starting sync.Mutex // held while a process is started

	mu       sync.Mutex
	process  *pluginhost.Process
	closed   bool
	machines map[string]*provider.Machine // by key
}

// OpenProvider starts a provider plugin and configures it. The error says what of the file, its pin, its options or the plugin is wrong.
func OpenProvider(ctx context.Context, config Config, setup provider.Setup) (*Provider, error) {
	if setup.State != "" {
		if err := os.MkdirAll(setup.State, 0o700); err != nil {
			return nil, fmt.Errorf("the folder of the provider plugin %q: %w", config.Name, err)
		}
	}
	file, remove, err := ProviderKind.Verified(&config)
	if err != nil {
		return nil, err
	}
	p := &Provider{config: config, setup: setup, file: file, remove: remove, machines: map[string]*provider.Machine{}}
	p.life, p.end = context.WithCancel(context.Background())
	if _, err := p.running(ctx); err != nil {
		p.end()
		remove()
		return nil, err
	}
	return p, nil
}

// CheckProvider starts a provider plugin, holds the options of a configuration against its schema, and ends it. It is not opened, so that no machine is made, or removed.
func CheckProvider(ctx context.Context, config *Config) error {
	file, remove, err := ProviderKind.Verified(config)
	if err != nil {
		return err
	}
	defer remove()
	started, err := ProviderKind.Start(ctx, config, file)
	if err != nil {
		return err
	}
	defer started.Leave()
	_, err = accepted(ctx, config, started)
	return err
}

// accepted are the options of a configuration, which the schema of a process allows.
func accepted(ctx context.Context, config *Config, started *pluginhost.Process) (options string, err error) {
	call := started.Begin(ctx, "Describe", limits.silence)
	d, err := providerv1.NewProviderClient(started.Conn).Describe(call.Ctx, &providerv1.DescribeRequest{})
	call.End()
	if err = call.Failed(err); errors.Is(err, errors.ErrUnsupported) {
		return "", &Failure{Kind: ProviderKind.Name, Plugin: config.Name, Call: "Describe", What: "is a plugin that provides no machines", Err: err}
	} else if err != nil {
		return "", err
	}
	return ProviderKind.CheckOptions(config, d.GetOptionsSchema())
}

// PID is that of the plugin's process, for tests of what happens when it ends.
func (p *Provider) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.PID()
}

// running is the process of the plugin. One that has ended is started again.
func (p *Provider) running(ctx context.Context) (*pluginhost.Process, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	p.mu.Lock()
	closed, last := p.closed, p.process
	p.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("the provider plugin %q is closed", p.config.Name)
	case last != nil && last.Err() == nil:
		return last, nil
	}
	started, err := ProviderKind.Start(ctx, &p.config, p.file)
	if err != nil {
		return nil, err
	}
	client := providerv1.NewProviderClient(started.Conn)
	if err := p.configure(ctx, started, client); err != nil {
		started.Fail("was not used")
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process = started
	return started, nil
}

// configure asks what a process is, and opens it with options that it accepts.
func (p *Provider) configure(ctx context.Context, started *pluginhost.Process, client providerv1.ProviderClient) error {
	options, err := accepted(ctx, &p.config, started)
	if err != nil {
		return err
	}
	lease := cmp.Or(p.setup.Lease, provider.DefaultLease)
	err = started.Attend(ctx, limits.silence, func(living context.Context) (func() error, error) {
		stream, err := client.Open(living, &providerv1.OpenRequest{Options: options, Owner: p.setup.Owner, State: p.setup.State, Lease: durationpb.New(lease)})
		if err != nil {
			return nil, err
		}
		return func() error { _, err := stream.Recv(); return err }, nil
	})
	if err != nil {
		return fmt.Errorf("opening the provider plugin %q: %w", p.config.Name, err)
	}
	return nil
}

// call makes one call of the plugin, which may say nothing for the limit.
func (p *Provider) call(ctx context.Context, name string, limit time.Duration, do func(ctx context.Context, client providerv1.ProviderClient, c *call) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	running, err := p.running(ctx)
	if err != nil {
		return err
	}
	c := running.Begin(ctx, name, limit)
	defer c.End()
	var failure *Failure
	err = do(c.Ctx, providerv1.NewProviderClient(running.Conn), c)
	if errors.As(err, &failure) {
		return err
	}
	if err = c.Failed(err); errors.As(err, &failure) {
		return failure // and not that something is gone: the process is, and its machines are not
	}
	return err
}

// Capacity implements provider.Provider.
func (p *Provider) Capacity(ctx context.Context, needs provider.Needs, tell func(provider.Capacity)) error {
	return p.call(ctx, "Capacity", limits.silence, func(ctx context.Context, client providerv1.ProviderClient, c *call) error {
		stream, err := client.Capacity(ctx, &providerv1.CapacityRequest{Needs: wire.EncodeNeeds(needs)})
		for err == nil {
			var now *providerv1.CapacityResponse
			if now, err = stream.Recv(); err == nil {
				c.Rest()
				tell(provider.Capacity{Free: int(max(now.GetFree(), 0)), Reason: now.GetReason()})
			}
		}
		return err
	})
}

// Reserve implements provider.Provider.
func (p *Provider) Reserve(ctx context.Context, key string, needs provider.Needs) error {
	return p.call(ctx, "Reserve", limits.silence, func(ctx context.Context, client providerv1.ProviderClient, _ *call) error {
		_, err := client.Reserve(ctx, &providerv1.ReserveRequest{Key: key, Needs: wire.EncodeNeeds(needs)})
		return err
	})
}

// Keep implements provider.Provider.
func (p *Provider) Keep(ctx context.Context, keys []string) (lost []string, err error) {
	err = p.call(ctx, "Keep", limits.silence, func(ctx context.Context, client providerv1.ProviderClient, _ *call) error {
		answer, err := client.Keep(ctx, &providerv1.KeepRequest{Keys: keys})
		lost = answer.GetLost()
		return err
	})
	return lost, err
}

// Acquire implements provider.Provider.
func (p *Provider) Acquire(ctx context.Context, key string, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	return p.machine(ctx, "Acquire", key, report, func(ctx context.Context, client providerv1.ProviderClient) (grpc.ServerStreamingClient[providerv1.AcquireResponse], error) {
		return client.Acquire(ctx, &providerv1.AcquireRequest{Key: key, Job: &providerv1.Job{Id: job.ID, Project: job.Project, Needs: wire.EncodeNeeds(job.Needs)}})
	})
}

// Recover implements provider.Provider.
func (p *Provider) Recover(ctx context.Context, key string, handle json.RawMessage) (*provider.Machine, error) {
	return p.machine(ctx, "Recover", key, nil, func(ctx context.Context, client providerv1.ProviderClient) (grpc.ServerStreamingClient[providerv1.AcquireResponse], error) {
		return client.Recover(ctx, &providerv1.RecoverRequest{Key: key, Handle: string(handle)})
	})
}

// machine makes a call that waits for a machine.
func (p *Provider) machine(ctx context.Context, name, key string, report executor.Reporter, begin func(context.Context, providerv1.ProviderClient) (grpc.ServerStreamingClient[providerv1.AcquireResponse], error)) (*provider.Machine, error) {
	var machine *provider.Machine
	err := p.call(ctx, name, limits.silence, func(ctx context.Context, client providerv1.ProviderClient, c *call) error {
		stream, err := begin(ctx, client)
		for err == nil {
			var said *providerv1.AcquireResponse
			if said, err = stream.Recv(); err != nil {
				break
			}
			c.Heard()
			if m := said.GetMachine(); m != nil {
				var lie error
				if machine, lie = wire.DecodeMachine(m); lie != nil {
					return &Failure{Kind: ProviderKind.Name, Plugin: p.config.Name, Call: name, What: "says what cannot be", Err: lie}
				}
				return nil
			}
			if said.GetPreparing() != nil {
				report.Report(wire.DecodeMachineReport(said.GetPreparing()))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.machines[key]; known != nil && known.Life.Err() == nil && string(known.Handle) == string(machine.Handle) {
		return known, nil
	}
	machine.Life = executor.NewLife()
	p.machines[key] = machine
	go p.watch(key, machine)
	return machine, nil
}

// watch ends the life of a machine when the plugin says that it is gone. A plugin that has ended is started again, and asked for the machine: that lives
// on without it.
func (p *Provider) watch(key string, m *provider.Machine) {
	defer p.forget(key, m)
	ctx, cancel := m.Within(p.life)
	defer cancel()
	until := time.Time{}
	for ctx.Err() == nil {
		var why error
		err := p.call(ctx, "Watch", limits.silence, func(ctx context.Context, client providerv1.ProviderClient, c *call) error {
			c.Rest()
			stream, err := client.Watch(ctx, &providerv1.WatchRequest{Key: key})
			if err != nil {
				return err
			}
			said, err := stream.Recv()
			if err == nil {
				why = wire.DecodeProviderError(said.GetError())
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if !errors.Is(why, executor.ErrGone) {
				why = &executor.Gone{Reason: why.Error()}
			}
			m.Finish(why)
			return
		}
		if until.IsZero() {
			until = time.Now().Add(cmp.Or(p.setup.Lease, provider.DefaultLease))
		}
		again, cause := p.again(ctx, key, m)
		switch {
		case again:
			until = time.Time{}
		case errors.Is(cause, executor.ErrGone) || time.Now().After(until):
			m.Finish(&executor.Gone{Reason: "its provider has lost it", Err: cause})
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// again asks for a machine of a process that has ended.
func (p *Provider) again(ctx context.Context, key string, m *provider.Machine) (ok bool, err error) {
	found, err := p.Recover(ctx, key, m.Handle)
	if err != nil {
		return false, err
	}
	return found == m, nil
}

// forget lets go of a machine that is gone.
func (p *Provider) forget(key string, m *provider.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machines[key] == m {
		delete(p.machines, key)
	}
}

// Release implements provider.Provider.
func (p *Provider) Release(ctx context.Context, key string, fault string) error {
	err := p.call(ctx, "Release", releaseTime, func(ctx context.Context, client providerv1.ProviderClient, _ *call) error {
		_, err := client.Release(ctx, &providerv1.ReleaseRequest{Key: key, Fault: fault})
		return err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	m := p.machines[key]
	p.mu.Unlock()
	if m != nil {
		m.Finish(&executor.Gone{Reason: "the machine was given back", Err: executor.ErrClosed})
	}
	return nil
}

// Close ends the plugin.
func (p *Provider) Close() error {
	p.mu.Lock()
	closed, running := p.closed, p.process
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	p.end()
	defer p.remove()
	if running.Err() != nil {
		running.Kill()
		return nil
	}
	c := running.Begin(context.Background(), "Close", limits.silence)
	_, err := providerv1.NewProviderClient(running.Conn).Close(c.Ctx, &providerv1.CloseRequest{})
	err = c.Failed(err)
	c.End()
	running.Finish(&executor.Gone{Reason: "the provider was closed", Err: executor.ErrClosed})
	running.Leave()
	return err
}
