package fake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/group/grouptest"
)

// leakFree fails when a machine is left.
func leakFree(t *testing.T, b group.Basic) {
	g, ok := b.(*fake.Group)
	if !ok {
		g = b.(minimal).Basic.(*fake.Group)
	}
	for _, m := range g.Machines() {
		if m.Exists && m.State != group.StateDeleting {
			t.Errorf("%s is left, %s", m.ID, m.State)
		}
	}
}

// minimal is a group as plugins of the first generation are.
type minimal struct{ group.Basic }

var clouds = map[string]fake.Options{
	"quick":  {},
	"slow":   {Boot: 30 * time.Millisecond, Deleting: 30 * time.Millisecond, Suspending: 10 * time.Millisecond},
	"behind": {Boot: 5 * time.Millisecond, Lag: 30 * time.Millisecond, KeepDeleted: true},
	"paged":  {Page: 1, PageTime: time.Millisecond},
	"shapes": {Offers: []group.Offer{{Shape: "small", Arch: "arm64", CPUs: 2, Memory: 4 << 30, Price: 0.05, Currency: "USD", Spot: true}}},
}

func TestConformance(t *testing.T) {
	for name, o := range clouds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.File = "cloud.json"
			grouptest.Run(t, grouptest.Subject{Open: func(*testing.T) group.Basic { return fake.New(o) }, Check: leakFree})
		})
	}
}

func TestConformanceOfAGroupThatDoesNoMoreThanItMust(t *testing.T) {
	grouptest.Run(t, grouptest.Subject{
		Open:  func(*testing.T) group.Basic { return minimal{fake.New(fake.Options{File: "cloud.json"})} },
		Check: leakFree,
	})
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// opened is a group by a clock that the test moves.
func opened(t *testing.T, o fake.Options) (*fake.Group, *fake.Manual) {
	t.Helper()
	clock := fake.NewManual(start)
	o.Clock = clock
	g := fake.New(o)
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us"}); err != nil {
		t.Fatal(err)
	}
	return g, clock
}

// listed is the list as text: id=state.
func listed(t *testing.T, g *fake.Group) string {
	t.Helper()
	var out []string
	if err := g.Update(t.Context(), func(id string, state group.State) { out = append(out, fmt.Sprintf("%s=%s", id, state)) }); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func TestAMachineIsWhatItsFateSays(t *testing.T) {
	for name, c := range map[string]struct {
		options fake.Options
		fate    fake.Fate
		want    map[time.Duration]string // the list, by the time since it was asked for
	}{
		"it boots":                 {fake.Options{Boot: 10}, fake.Fate{}, map[time.Duration]string{0: "fake-0=creating", 9: "fake-0=creating", 10: "fake-0=running", 1000: "fake-0=running"}},
		"it boots in its own time": {fake.Options{Boot: 10}, fake.Fate{Boot: 20}, map[time.Duration]string{10: "fake-0=creating", 20: "fake-0=running"}},
		"it never runs":            {fake.Options{}, fake.Fate{Stuck: true}, map[time.Duration]string{1000: "fake-0=creating"}},
		"it fails":                 {fake.Options{Boot: 10}, fake.Fate{Fails: 5, Reason: "no disk"}, map[time.Duration]string{4: "fake-0=creating", 5: "fake-0=failed", 20: "fake-0=failed"}},
		"it vanishes":              {fake.Options{}, fake.Fate{Vanishes: 5}, map[time.Duration]string{4: "fake-0=running", 5: ""}},
		"it goes back":             {fake.Options{Boot: 2}, fake.Fate{Back: 5}, map[time.Duration]string{2: "fake-0=running", 5: "fake-0=creating"}},
		"it is taken away":         {fake.Options{}, fake.Fate{Interrupted: 5, Notice: 10}, map[time.Duration]string{5: "fake-0=running", 14: "fake-0=running", 15: ""}},
		"lists are behind":         {fake.Options{Boot: 10, Lag: 5}, fake.Fate{}, map[time.Duration]string{4: "", 5: "fake-0=creating", 14: "fake-0=creating", 15: "fake-0=running"}},
	} {
		t.Run(name, func(t *testing.T) {
			for at, want := range c.want {
				o := c.options
				o.Machine = func(int) fake.Fate { return c.fate }
				g, clock := opened(t, o)
				if n, err := g.Increase(t.Context(), 1); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				clock.Advance(at)
				if got := listed(t, g); got != want {
					t.Errorf("after %d: %q, want %q", at, got, want)
				}
			}
		})
	}
}

func TestQuotaLetsAPartOfACallSucceed(t *testing.T) {
	g, _ := opened(t, fake.Options{Size: 10, Quota: 2})
	n, err := g.Increase(t.Context(), 3)
	if n != 2 || !errors.Is(err, group.ErrQuota) {
		t.Errorf("%d, %v", n, err)
	}
	ids, err := g.IncreaseShape(t.Context(), group.Request{ID: "r", Count: 1})
	if len(ids) != 0 || !errors.Is(err, group.ErrQuota) {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestDeletesTakeTheirTimeAndFail(t *testing.T) {
	g, clock := opened(t, fake.Options{Deleting: 10, Machine: func(n int) fake.Fate { return fake.Fate{Undeletable: n} }})
	if _, err := g.Increase(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	ids, err := g.Decrease(t.Context(), []string{"fake-0", "fake-1"})
	if err == nil || !slices.Equal(ids, []string{"fake-0"}) || listed(t, g) != "fake-0=deleting fake-1=running" {
		t.Errorf("%v, %v, %s", ids, err, listed(t, g))
	}
	if ids, err := g.Decrease(t.Context(), []string{"fake-1"}); err != nil || !slices.Equal(ids, []string{"fake-1"}) {
		t.Errorf("%v, %v", ids, err)
	}
	clock.Advance(10)
	if got := listed(t, g); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestWhatComesFromOutside(t *testing.T) {
	g, clock := opened(t, fake.Options{Surplus: 1})
	if n, err := g.Increase(t.Context(), 1); n != 2 || err != nil {
		t.Fatalf("with a surplus of 1: %d, %v", n, err)
	}
	other := g.Add(map[string]string{group.OwnerLabel: "them"})
	g.Set("fake-0", group.StateFailed, "its disk is broken")
	g.Interrupt("fake-1", 10, "spot")
	if got, want := listed(t, g), "fake-0=failed fake-1=running "+other+"=running"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	clock.Advance(10)
	g.Vanish(other)
	if got := listed(t, g); got != "fake-0=failed" {
		t.Errorf("%s", got)
	}
	var exist []string
	for _, m := range g.Machines() {
		if m.Exists {
			exist = append(exist, m.ID+" "+m.Reason)
		}
	}
	if diff := cmp.Diff([]string{"fake-0 its disk is broken"}, exist); diff != "" {
		t.Error(diff)
	}
}

func TestCallsDoWhatTheyAreTold(t *testing.T) {
	lost := errors.New("the answer was lost")
	g, clock := opened(t, fake.Options{Page: 1})
	again := fake.New(fake.Options{
		Clock:  clock,
		Before: fake.All(fake.On("Update", fake.First(1, fake.Fail(group.ErrTransient))), fake.On("ConnectInfo", fake.Hang)),
		After:  fake.On("Increase", fake.Fail(lost)),
	})
	if err := again.Update(t.Context(), func(string, group.State) {}); !errors.Is(err, group.ErrTransient) {
		t.Error(err)
	}
	if n, err := again.Increase(t.Context(), 1); n != 1 || !errors.Is(err, lost) || listed(t, again) != "fake-0=running" {
		t.Errorf("%d, %v, %s", n, err, listed(t, again))
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { _, err := again.ConnectInfo(ctx, "fake-0"); over <- err }()
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if again.Calls("Update") != 2 || g.Calls("Update") != 0 {
		t.Errorf("%d calls of Update", again.Calls("Update"))
	}
}

func TestAListFailsAtAPage(t *testing.T) {
	g, _ := opened(t, fake.Options{Page: 2, Before: fake.On("page", fake.Fail(group.ErrTransient))})
	if _, err := g.Increase(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	got := 0
	err := g.Update(t.Context(), func(string, group.State) { got++ })
	if got != 2 || !errors.Is(err, group.ErrTransient) {
		t.Errorf("%d, %v", got, err)
	}
}

func TestWatchTellsByTheClock(t *testing.T) {
	g, clock := opened(t, fake.Options{Boot: 10})
	if _, err := g.Increase(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	told := make(chan string)
	go func() {
		_ = g.Watch(t.Context(), func(i group.Instance) { told <- string(i.State) })
	}()
	if got := <-told; got != "creating" {
		t.Error(got)
	}
	for clock.Waiting() == 0 { // until it waits for what comes next
		time.Sleep(time.Millisecond)
	}
	clock.Advance(10)
	if got := <-told; got != "running" {
		t.Error(got)
	}
	g.Vanish("fake-0")
	if got := <-told; got != "deleted" {
		t.Error(got)
	}
}
