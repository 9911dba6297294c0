package hosts

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/providertest"
)

func two() []Host {
	return []Host{
		{Name: "a", Slots: 2, Access: provider.Access{Protocol: provider.SSH, Address: "a.test:22", User: "ci"}, Has: provider.Needs{OS: "linux", Arch: "amd64", CPUs: 2}},
		{Name: "b", Slots: 2, Access: provider.Access{Protocol: provider.SSH, Address: "b.test:22", User: "ci"}, Has: provider.Needs{OS: "linux", Arch: "arm64", CPUs: 8}},
	}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		Open: func(_ context.Context, setup provider.Setup) (provider.Provider, error) { return New(two(), setup) },
		Room: 4,
	})
}

func TestJobsAreSpreadOverTheMachinesThatFit(t *testing.T) {
	p, err := New(two(), provider.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got []string
	for i, needs := range []provider.Needs{{}, {}, {CPUs: 4}, {}} {
		key := string(rune('a' + i))
		if err := p.Reserve(t.Context(), key, needs); err != nil {
			t.Fatal(err)
		}
		m, err := p.Acquire(t.Context(), key, provider.Job{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Name)
	}
	if text := strings.Join(got, " "); text != "a b b a" {
		t.Error("the machines are", text)
	}
	var none *provider.NoCapacity
	if err := p.Reserve(t.Context(), "e", provider.Needs{Arch: "arm64"}); !errors.As(err, &none) || none.Reason != "all slots are taken" {
		t.Error(err)
	}
}

func TestAMachineWithAFaultIsLeftAloneForAWhile(t *testing.T) {
	p, err := newProvider(two(), provider.Setup{}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	reserve := func(key string) { // on a, b, a, …
		t.Helper()
		if err := p.Reserve(t.Context(), key, provider.Needs{}); err != nil {
			t.Fatal(err)
		}
	}
	name := func(key string) string {
		t.Helper()
		m, err := p.Acquire(t.Context(), key, provider.Job{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.Name
	}
	reserve("1")
	reserve("2")
	reserve("3")
	if got := name("1"); got != "a" {
		t.Fatal(got)
	}
	if err := p.Release(t.Context(), "1", "connection refused"); err != nil {
		t.Fatal(err)
	}
	if got := name("3"); got != "b" {
		t.Errorf("a reservation of the machine with a fault becomes one of %s", got)
	}
	err = p.Reserve(t.Context(), "4", provider.Needs{Arch: "amd64"})
	var none *provider.NoCapacity
	if !errors.As(err, &none) || none.After <= 0 || !strings.Contains(none.Reason, "connection refused") {
		t.Errorf("the error is %#v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = p.Capacity(ctx, provider.Needs{}, func(c provider.Capacity) {
		if c.Free == 2 {
			cancel()
		}
	})
	reserve("5")
	if got := name("5"); got != "a" {
		t.Error("after a while it is", got)
	}
}

func TestAListThatCannotBeIsRefused(t *testing.T) {
	for name, list := range map[string][]Host{
		"the list of machines is empty": nil,
		"two machines":                  append(two(), two()...),
		"no address":                    {{Access: provider.Access{Protocol: provider.SSH}}},
		"-1 slots":                      {{Slots: -1, Access: provider.Access{Protocol: provider.Local}}},
	} {
		if _, err := New(list, provider.Setup{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
