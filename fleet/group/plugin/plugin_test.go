//go:build unix

package plugin_test

import (
	"context"
	"encoding/json"
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
		Offers: []group.Offer{{Shape: "small", OS: "linux", Arch: "arm64", CPUs: 2, Memory: 4 << 30, Disk: 1 << 30, GPUs: 1, GPU: "t4", Zone: "a", Spot: true, Price: 0.05, Currency: "USD", Minimum: time.Hour, Step: time.Minute}},
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
		Name: "fake", File: os.Args[0], Env: []string{plays + "=" + what, "GORACE=atexit_sleep_ms=0"}, Options: text, Log: slog.New(slog.DiscardHandler),
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

func subject(t *testing.T, what string) grouptest.Subject {
	return grouptest.Subject{
		Open: func(t *testing.T) group.Basic {
			return plugin.New(config(t, what, nil))
		},
		Settings: group.Settings{ConnectorConfig: group.ConnectorConfig{Username: "ci", Password: "a secret", Key: []byte("a key")}},
	}
}

func TestConformanceOverTheWire(t *testing.T) {
	s := subject(t, "fake")
	s.Kill = func(t *testing.T, b group.Basic) {
		process, err := os.FindProcess(b.(*plugin.Group).PID())
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	grouptest.Run(t, s)
}

func TestConformanceOfAPluginThatDoesNoMoreThanItMust(t *testing.T) {
	grouptest.Run(t, subject(t, "minimal"))
}
