package control_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/store"
)

func TestAMachineThatIsNotReadyInTimeSaysWhy(t *testing.T) {
	const reason = "dial tcp 10.0.0.1:22: connect: connection refused"
	refuse := func(o *control.Options) {
		o.Prepare = func(context.Context, *control.Machine) error { return errors.New(reason) }
	}
	inWorld(t, fake.Options{}, refuse, func(w *world) {
		w.wants("job")
		w.until(20*time.Minute, "given up", func() bool { return len(w.history(store.Delete)) > 0 })
		want := "fake-0 is not ready after 15m0s: " + reason
		if got := w.history(store.Delete); got[0].Why != want {
			t.Errorf("%q, want %q", got[0].Why, want)
		}
		want = "a machine was not ready after 15m0s: " + reason
		if got := w.fleet.Explain("job"); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	})
}

func TestAMachineThatNoListHasSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{Lag: 20 * time.Second})
		w.counts = true
		w.open()
		defer func() { w.process.kill() }()
		w.wants("job")
		time.Sleep(10 * time.Second)
		if got := w.fleet.Status().Machines; len(got) != 1 || got[0].PreparingError != "its group has accepted to make it, and no list has it yet" {
			t.Errorf("%+v", got)
		}
	})
}

func TestEachMachineThatCannotBeDeletedSaysItsOwnErrorNowAndThen(t *testing.T) {
	refuse := func(_ context.Context, c fake.Call) error {
		var all []error
		for _, id := range c.Instances {
			all = append(all, fmt.Errorf("%s is locked", id))
		}
		return errors.Join(all...)
	}
	inWorld(t, fake.Options{Before: fake.On("Decrease", refuse)}, nil, func(w *world) {
		for i := range 3 {
			w.acquire(fmt.Sprint("job-", i))
		}
		for i := range 3 {
			w.fleet.Release(fmt.Sprint("job-", i), "")
		}
		time.Sleep(20 * time.Minute)
		said := map[string][]string{}
		for _, e := range w.history(store.Failed) {
			said[e.Instance] = append(said[e.Instance], e.Why)
		}
		for i := range 3 {
			id := fmt.Sprint("fake-", i)
			for n, why := range said[id] {
				want := "it could not be deleted: " + id + " is locked"
				if n > 0 {
					want = fmt.Sprintf("it could not be deleted %d times in a row: %s is locked", 1<<n, id)
				}
				if why != want {
					t.Errorf("%q, want %q", why, want)
				}
			}
			if n := len(said[id]); n < 4 || n > 5 {
				t.Errorf("%s: %d errors in 20 minutes", id, n)
			}
		}
	})
}

func TestALineNamesAMachineByItsWholeID(t *testing.T) {
	t.Parallel()
	err := errors.New("i-1 is locked\ni-10: no such machine\nthe cloud is slow")
	got := map[string]string{}
	for id, err := range control.ErrorsOf(err, []string{"i-1", "i-10", "i", ""}) {
		got[id] = err.Error()
	}
	want := map[string]string{"i-1": "i-1 is locked\nthe cloud is slow", "i-10": "i-10: no such machine\nthe cloud is slow", "i": "the cloud is slow", "": "the cloud is slow"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
