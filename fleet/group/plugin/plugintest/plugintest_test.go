//go:build unix

package plugintest_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/plugintrial"
	sdk "github.com/rungci/rung/sdk/instancegroup"
)

// plays is the variable that makes the test binary a plugin, and child the argument that makes it the process of a suite.
const (
	plays = "RUNG_TEST_PLAYS"
	child = "suite-of-a-plugin"
)

func TestMain(m *testing.M) {
	switch how := os.Getenv(plays); {
	case len(os.Args) > 1 && os.Args[1] == child:
		code, _ := plugintest.Child()
		os.Exit(code)
	case len(os.Args) > 1 && os.Args[1] == driver:
		drive()
		return
	case strings.HasPrefix(how, "paid"):
		sdk.Serve(&costly{how: how})
		return
	case how != "":
		sdk.Serve(&wrong{how: how})
		return
	}
	os.Exit(m.Run())
}

// wrong is a group that does not do what it should in one way.
type wrong struct {
	*fake.Group
	how string
}

// Init makes the fake.
func (w *wrong) Init(ctx context.Context, log hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	o := fake.Options{File: "cloud.json"}
	switch w.how {
	case "generous":
		o.Surplus = 1
	case "lost":
		o.Machine = func(int) fake.Fate { return fake.Fate{Fails: 1, Reason: "no disk"} }
	case "small":
		o.Size = 1
	}
	w.Group = fake.New(o)
	return w.Group.Init(ctx, log, settings)
}

func (w *wrong) IncreaseShape(ctx context.Context, r group.Request) ([]string, error) {
	if w.how == "forgetful" {
		r.ID += "-" + r.Labels[group.OwnerLabel] + string(rune('a'+w.Calls("IncreaseShape")))
	}
	if w.how == "credulous" {
		r.Shape = ""
	}
	return w.Group.IncreaseShape(ctx, r)
}

func (w *wrong) Decrease(ctx context.Context, ids []string) ([]string, error) {
	if w.how == "strict" {
		for _, id := range ids {
			if !slices.ContainsFunc(w.Machines(), func(m fake.Machine) bool { return m.ID == id && m.Exists }) {
				return nil, group.ErrNotFound
			}
		}
	}
	return w.Group.Decrease(ctx, ids)
}

func (w *wrong) ConnectInfo(ctx context.Context, id string) (group.ConnectInfo, error) {
	info, err := w.Group.ConnectInfo(ctx, id)
	if w.how == "confused" {
		info.ID = "another"
	}
	return info, err
}

func (w *wrong) Offers(context.Context) ([]group.Offer, error) {
	return []group.Offer{{Shape: "small", CPUs: 1, Memory: 1}}, nil
}

func try(t *testing.T, how, only string) (results []plugintrial.Result, passed bool, err error) {
	t.Helper()
	trial := plugintest.Trial{Only: only, Plugin: plugin.Config{Config: pluginhost.Config{
		Name: "wrong", File: os.Args[0], Env: []string{plays + "=" + how}, Log: slog.New(slog.DiscardHandler),
	}}}
	passed, err = trial.Run(t.Context(), []string{os.Args[0], child}, func(r plugintrial.Result) { results = append(results, r) })
	return results, passed, err
}

func TestWhatIsWrongWithAPluginIsSaidInWords(t *testing.T) {
	for _, c := range []struct{ how, name, want string }{
		{"right", "a repeated request makes no second instance", ""},
		{"forgetful", "a repeated request makes no second instance", "there is one more: fake-1"},
		{"generous", "a request makes as many instances as it is for", "Create(2) made 3"},
		{"strict", "an instance can be deleted twice", "not found"},
		{"strict", "an unknown instance can be deleted", "not found"},
		{"confused", "an instance is made, runs, can be reached, and goes", `gave the connection of the instance "another"`},
		{"lost", "a running instance is well", "has failed: no disk"},
		{"credulous", "a shape that does not exist is refused", "made: {Count:1"},
	} {
		t.Run(c.how+" "+c.name, func(t *testing.T) {
			t.Parallel()
			results, passed, err := try(t, c.how, c.name)
			if err != nil || len(results) != 1 || passed != (c.want == "") || passed != results[0].Passed || !strings.Contains(strings.Join(results[0].Details, "\n"), c.want) {
				t.Errorf("%t, %v: %+v", passed, err, results)
			}
		})
	}
}

func TestAPluginThatCannotBeTriedIsNot(t *testing.T) {
	if _, passed, err := try(t, "small", ""); passed || err == nil || !strings.Contains(err.Error(), "has room for 1 instances, and the suite needs room for 2") {
		t.Errorf("%t, %v", passed, err)
	}
}
