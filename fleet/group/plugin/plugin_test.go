//go:build unix

package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginhost/rawplugin"
	sdk "github.com/rungci/rung/sdk/instancegroup"
)

// plays is the variable that makes the test binary a plugin.
const plays = "RUNG_TEST_PLAYS"

func TestMain(m *testing.M) {
	switch name := os.Getenv(plays); {
	case name == "":
		plugin.Kind.Probe = 2 * time.Second
		os.Exit(m.Run())
	case name == "fake":
		sdk.Main(&cloud{}, sdk.VersionInfo{Name: "fake", Version: "1.2.3", Revision: "abc"})
	case name == "minimal":
		sdk.Main(&minimal{}, sdk.VersionInfo{Name: "minimal"})
	case name == "fleeting":
		rawplugin.ServeAnother()
	case strings.HasPrefix(name, "liar "):
		lieTo(strings.TrimPrefix(name, "liar "))
	}
}

// cloud is the fake as a plugin, with options.
type cloud struct {
	*fake.Group
	// At are names of acts by call, before it has an effect, and After when it had.
	At    map[string]string `json:"at"`
	After map[string]string `json:"after"`
	// Once is a file: what is to happen does so only as long as it does not exist.
	Once string `json:"once"`
	Log  string `json:"log"`
}

var acts = map[string]fake.Act{
	"stick": fake.Stick, "panic": fake.Panic, "die": fake.Die, "hang": fake.Hang,
	"quota":        fake.Fail(&group.Error{Kind: group.ErrQuota, Message: "8 of 8 cores", After: time.Hour}),
	"not found":    fake.Fail(fmt.Errorf("deleting: %w", group.ErrNotFound)),
	"unauthorised": fake.Fail(&group.Error{Kind: group.ErrUnauthorised}),
	"transient":    fake.Fail(group.Transient(3*time.Second, fmt.Errorf("429 too many requests"))),
	"unhealthy":    fake.Fail(group.ErrInstanceUnhealthy),
	"unsupported":  fake.Fail(group.ErrSuspendResumeNotSupported),
	"plain":        fake.Fail(fmt.Errorf("the cloud is broken")),
}

// Init makes the cloud as the options say.
func (c *cloud) Init(ctx context.Context, log hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	act := func(by map[string]string) fake.Act {
		return func(ctx context.Context, call fake.Call) error {
			act := acts[by[call.Name]]
			if act == nil {
				return nil
			}
			if c.Once != "" {
				if _, err := os.Stat(c.Once); err == nil {
					return nil
				}
				if err := os.WriteFile(c.Once, nil, 0o600); err != nil {
					return err
				}
			}
			return act(ctx, call)
		}
	}
	c.Group = fake.New(fake.Options{
		File: "cloud.json", Boot: 10 * time.Millisecond, Before: act(c.At), After: act(c.After), KeepDeleted: true,
		Offers: []group.Offer{{Shape: "small", OS: "linux", Arch: "arm64", CPUs: 2, Memory: 4 << 30, Disk: 1 << 30, GPUs: 1, GPU: "t4", Zone: "a", Spot: true, Price: 0.05, SuspendedPrice: 0.01, Currency: "USD", Minimum: time.Hour, Step: time.Minute}},
	})
	if c.Log != "" {
		log.Warn(c.Log, "region", settings.Owner)
	}
	return c.Group.Init(ctx, log, settings)
}

// minimal is a plugin of the first generation.
type minimal struct{ group.Basic }

func (m *minimal) Init(ctx context.Context, log hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	m.Basic = fake.New(fake.Options{File: "cloud.json"})
	info, err := m.Basic.Init(ctx, log, settings)
	info.Capabilities = nil
	return info, err
}

// config is that of a plugin which this binary is, with options in JSON.
func config(t testing.TB, what string, options any) plugin.Config {
	t.Helper()
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Config{Config: pluginhost.Config{
		Name: "fake", File: os.Args[0], Env: []string{plays + "=" + what}, Options: text, Log: slog.New(slog.DiscardHandler),
	}}
}

// opened is a group that is ready.
func opened(t *testing.T, c plugin.Config) *plugin.Group {
	t.Helper()
	g := plugin.New(c)
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us", State: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Shutdown(context.Background()) })
	return g
}

// kill kills the process of a plugin.
func kill(t *testing.T, b group.Basic) {
	t.Helper()
	process, err := os.FindProcess(b.(*plugin.Group).PID())
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformanceOverTheWire(t *testing.T) {
	grouptest.Run(t, grouptest.Subject{
		Open:     func(t *testing.T) group.Basic { return plugin.New(config(t, "fake", nil)) },
		Settings: group.Settings{ConnectorConfig: group.ConnectorConfig{Username: "ci", Password: "a secret", Key: []byte("a key")}},
		Kill:     kill,
	})
}

func TestAPluginOfTheFirstGenerationIsAGroup(t *testing.T) {
	g := group.Adapt(plugin.New(config(t, "minimal", nil)))
	info, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us", State: t.TempDir()})
	if err != nil || g.Can() != (group.Abilities{}) || info.Version != "1.0.0" {
		t.Fatalf("it is %+v, can %+v, %v", info, g.Can(), err)
	}
	defer func() { _ = g.Shutdown(t.Context()) }()
	for range 2 {
		if created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 2}); created.Count != 2 || err != nil {
			t.Errorf("%+v, %v", created, err)
		}
	}
	list, err := g.List(t.Context())
	if err != nil || len(list) != 2 || list[0].State != group.StateRunning {
		t.Fatalf("the list is %v, %v", list, err)
	}
	if done, err := g.Delete(t.Context(), []string{list[0].ID, list[1].ID}); len(done) != 2 || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if err := g.Heartbeat(t.Context(), list[0].ID); err != nil {
		t.Error(err)
	}
	if _, err := g.Suspend(t.Context(), []string{list[0].ID}); !errors.Is(err, group.ErrSuspendResumeNotSupported) {
		t.Error(err)
	}
}
