package instancegroup_test

import (
	"context"
	"path"
	"testing"

	"github.com/hashicorp/go-hclog"

	plugin "github.com/rungci/rung/sdk/instancegroup"
	provider "github.com/rungci/rung/sdk/instancegroup"
)

// ported is shaped like the source of a plugin of fleeting, of each of its generations: but for the imports, nothing is changed.
type ported struct {
	Name   string `json:"name"`
	Region string `json:"region"`

	settings provider.Settings
	size     int
}

var (
	_ provider.InstanceGroup = (*ported)(nil)
	_                        = plugin.Main
	_                        = plugin.Serve
	_                        = plugin.VersionInfo{Name: "fleeting-plugin-ported", Version: "1", Revision: "HEAD", Reference: "HEAD", BuiltAt: "now"}
)

func (g *ported) Init(_ context.Context, log hclog.Logger, settings provider.Settings) (provider.ProviderInfo, error) {
	g.settings = settings
	if !settings.UseStaticCredentials && settings.Protocol == "" {
		settings.Protocol = provider.ProtocolSSH
	}
	log.With("region", g.Region).Debug("ready")
	return provider.ProviderInfo{
		ID: path.Join("ported", g.Region, g.Name), MaxSize: 1000, Version: "1", BuildInfo: "x",
		Capabilities: []provider.Capability{provider.CapabilitySuspendResume},
	}, nil
}

func (g *ported) Update(_ context.Context, update func(id string, state provider.State)) error {
	for _, state := range []provider.State{
		provider.StateCreating, provider.StateRunning, provider.StateSuspending, provider.StateSuspended, provider.StateDeleting, provider.StateDeleted, provider.StateTimeout,
	} {
		update("i-"+string(state), state)
	}
	return nil
}

func (g *ported) Increase(_ context.Context, n int) (int, error) {
	g.size += n
	return n, nil
}

func (g *ported) Decrease(_ context.Context, instances []string) ([]string, error) {
	return instances, nil
}

func (g *ported) ConnectInfo(_ context.Context, id string) (provider.ConnectInfo, error) {
	info := provider.ConnectInfo{ConnectorConfig: g.settings.ConnectorConfig}
	info.ID, info.InternalAddr, info.ExternalAddr = id, "10.0.0.1", "192.0.2.1"
	if info.OS == "" {
		info.OS, info.Arch = "linux", "amd64"
	}
	return info, nil
}

func (g *ported) Heartbeat(context.Context, string) error { return provider.ErrInstanceUnhealthy }

func (g *ported) Suspend(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

func (g *ported) Resume(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

func (g *ported) Shutdown(context.Context) error { return nil }

// older is one of the first generation, which has five methods.
type older struct{ g *ported }

func (o *older) Init(ctx context.Context, log hclog.Logger, s provider.Settings) (provider.ProviderInfo, error) {
	return o.g.Init(ctx, log, s)
}

func (o *older) Update(ctx context.Context, update func(string, provider.State)) error {
	return o.g.Update(ctx, update)
}

func (o *older) Increase(ctx context.Context, n int) (int, error) { return o.g.Increase(ctx, n) }

func (o *older) Decrease(ctx context.Context, instances []string) ([]string, error) {
	return o.g.Decrease(ctx, instances)
}

func (o *older) ConnectInfo(ctx context.Context, id string) (provider.ConnectInfo, error) {
	return o.g.ConnectInfo(ctx, id)
}

func TestSourcesOfEveryGenerationCompile(t *testing.T) {
	for name, g := range map[string]provider.Basic{"newest": &ported{Region: "eu", Name: "x"}, "oldest": &older{&ported{Region: "eu", Name: "x"}}} {
		info, err := g.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
		if err != nil || info.ID != "ported/eu/x" || !info.Has(provider.CapabilitySuspendResume) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		count := 0
		if err := g.Update(t.Context(), func(_ string, state provider.State) {
			if state.Known() {
				count++
			}
		}); err != nil || count != 7 {
			t.Errorf("%s: %d, %v", name, count, err)
		}
	}
}
