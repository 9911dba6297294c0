package control_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/store"
)

// running is how many jobs have a slot.
func running(w *world) (n int) {
	for _, j := range w.fleet.Status().Jobs {
		if j.State == control.Running {
			n++
		}
	}
	return n
}

func TestHundredsOfMachinesThatTakeTheirTimeAreAllWell(t *testing.T) {
	const machines = 300
	slow := func(ctx context.Context, _ *control.Machine) error {
		select {
		case <-time.After(5 * time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	inWorld(t, fake.Options{Size: machines}, func(o *control.Options) { o.Prepare, o.Check = slow, slow }, func(w *world) {
		for i := range machines {
			w.wants(fmt.Sprint(i))
		}
		w.until(5*time.Minute, "on machines", func() bool { return running(w) == machines })
		time.Sleep(10 * time.Minute)
		if made, exist := w.made(), len(w.exist()); made != machines || exist != machines {
			t.Errorf("%d machines were made, and %d exist", made, exist)
		}
		if failed := w.history(store.Failed); len(failed) > 0 {
			t.Errorf("%d times something failed, first: %s", len(failed), failed[0].Why)
		}
	})
}
