//go:build unix

package plugintest_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider/fake"
	sdk "github.com/rungci/rung/sdk/provider"
)

// wrong is a provider that does not do what it should in one way.
type wrong struct {
	sdk.Provider
	how string
}

func playProvider(how string) {
	sdk.Serve(sdk.Plugin{Name: how, Open: func(_ context.Context, setup sdk.Setup, _ json.RawMessage) (sdk.Provider, error) {
		room := 2
		if how == "narrow" {
			room = 1
		}
		return &wrong{Provider: fake.New(fake.Options{Room: room}, setup), how: how}, nil
	}})
}

func (w *wrong) Reserve(ctx context.Context, key string, needs sdk.Needs) error {
	switch w.how {
	case "greedy":
		key = rand.Text()
	case "credulous":
		needs = sdk.Needs{}
	}
	return w.Provider.Reserve(ctx, key, needs)
}

func (w *wrong) Capacity(ctx context.Context, needs sdk.Needs, tell func(sdk.Capacity)) error {
	if w.how == "silent" {
		return errors.New("made up")
	}
	return w.Provider.Capacity(ctx, needs, tell)
}

func (w *wrong) Release(ctx context.Context, key, fault string) error {
	if w.how == "clinging" {
		return nil
	}
	return w.Provider.Release(ctx, key, fault)
}

func (w *wrong) Keep(ctx context.Context, keys []string) ([]string, error) {
	if w.how == "forgetful" {
		return nil, nil
	}
	return w.Provider.Keep(ctx, keys)
}

func TestWhatIsWrongWithAProviderPluginIsSaidInWords(t *testing.T) {
	for _, c := range []struct{ how, name, want string }{
		{"", "no more is reserved than there is room", ""},
		{"", "a release can be repeated", ""},
		{"greedy", "a repeated reservation takes one place", "reserving one: there is no machine for the job now"},
		{"credulous", "needs that no machine has are refused", "reserving what there is not: <nil>, want a NoCapacity"},
		{"clinging", "a reservation without a job is given back", "there is room for 1, want 2"},
		{"forgetful", "a reservation that nobody keeps vanishes", "lost are [], <nil>, want both"},
		{"", "a machine outlives the process of its provider", "the next process does not recover the machine"}, // those of the fake are in its process
	} {
		t.Run(c.how+" "+c.name, func(t *testing.T) {
			t.Parallel()
			config := plugin.Config{Name: "wrong", File: os.Args[0], Env: []string{playsVariable + "=provider " + c.how}}
			cases, passed, err := try(t, config, c.name)
			r := cases[c.name]
			if err != nil || passed != (c.want == "") || passed != r.Passed || !strings.Contains(strings.Join(r.Details, "\n"), c.want) {
				t.Errorf("%t, %v: %+v", passed, err, cases)
			}
		})
	}
}

func TestAProviderPluginThatCannotBeTriedIsNot(t *testing.T) {
	for how, want := range map[string]string{
		"narrow": `the provider plugin "wrong" has room for 1 jobs, and the suite needs room for 2 to 64`,
		"silent": `the provider plugin "wrong" does not say how much room there is (in its call Capacity): made up`,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			_, passed, err := try(t, plugin.Config{Name: "wrong", File: os.Args[0], Env: []string{playsVariable + "=provider " + how}}, "")
			if passed || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%t, %v", passed, err)
			}
		})
	}
}
