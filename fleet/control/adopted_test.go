package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group/fake"
)

// The process dies after it has recorded where a job runs, and before the job's record has its machine.
func TestASlotOfAnEarlierProcessIsFreeWhenItsJobAsksAgain(t *testing.T) {
	one := func(o *control.Options) { o.Scale.Pools[0].MaxInstances = 1 }
	inWorld(t, fake.Options{Boot: time.Minute}, one, func(w *world) {
		job := control.Job{ID: "7", Project: "a/b"}
		if _, err := w.fleet.Acquire(w.t.Context(), "before", job, nil); err != nil {
			t.Fatal(err)
		}
		w.restart()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		if _, err := w.fleet.Acquire(ctx, "other", control.Job{ID: "7", Project: "c/d"}, nil); err == nil {
			t.Error("a job of another project has got the slot")
		}
		w.fleet.Release("other", "")
		began := time.Now()
		if _, err := w.fleet.Acquire(w.t.Context(), "after", job, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it waited %s for the slot that it had", took)
		}
		if got := w.fleet.Status().Jobs; len(got) != 1 || got[0].Key != "after" {
			t.Errorf("%+v", got)
		}
		if _, err := w.fleet.Recover(w.t.Context(), "before"); !errors.Is(err, control.ErrGone) {
			t.Error(err)
		}
	})
}
