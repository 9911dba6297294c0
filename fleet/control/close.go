package control

import (
	"context"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Close ends the loop. Creates and deletes that are under way go on until they have ended, or ctx has. Machines and jobs stay for the next process, unless
// DeleteOnShutdown.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	again := f.closing
	f.closing = true // endVolumes does not change from now on
	f.scale.Stop()
	deletes := f.o.DeleteOnShutdown
	for _, j := range f.jobs {
		j.change()
	}
	f.kick()
	f.mu.Unlock()
	if again {
		<-f.settled
		return nil
	}
	f.answered(ctx)
	if deletes {
		f.deleteAll(ctx)
	}
	f.mu.Lock()
	f.end()
	f.mu.Unlock()
	<-f.settled
	f.answered(ctx)
	f.busy.Wait()
	f.stop()
	f.mu.Lock()
	change, entries := f.pending.take(), f.entries // what came after the last decision
	f.entries = nil
	f.mu.Unlock()
	f.record(change, entries, nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storeErr
}

// answered waits for the answers of creates and deletes; once ctx has ended they are given up.
func (f *Fleet) answered(ctx context.Context) {
	for told := false; ; {
		f.mu.Lock()
		left, changed := f.underway, f.changed
		f.mu.Unlock()
		if left == 0 {
			return
		}
		if !told {
			f.log.Info("the groups of the fleet have not answered yet, and are waited for", "calls", left)
			told = true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.stop()
			<-changed
		}
	}
}

// deleteAll ends all machines that have no jobs.
func (f *Fleet) deleteAll(ctx context.Context) {
	for range f.o.ShutdownDeletionRetries {
		f.tell(f.retireAll)
		after := f.clock.After(f.o.ShutdownDeletionInterval)
		for waiting := true; waiting; {
			f.mu.Lock()
			left := f.requestsOf(func(m *machine) bool { return m.jobs() == 0 && m.cloud != nil })
			changed, volumes := f.changed, len(f.volumes)
			f.mu.Unlock()
			if len(left) == 0 && (!f.endVolumes || volumes == 0) {
				return
			}
			select {
			case <-changed:
			case <-after:
				waiting = false
			case <-ctx.Done():
				return
			}
		}
		f.mu.Lock()
		for _, c := range f.clouds {
			c.end(f.requestsOf(func(m *machine) bool { return m.cloud == c && m.rec.State == scale.Deleting }))
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, request := range f.requestsOf(func(m *machine) bool { return m.jobs() == 0 }) {
		m := f.machines[request]
		f.log.Warn("a machine was not deleted before the end; the next process ends it", "pool", m.rec.Pool, "instance", m.rec.Instance, "state", m.rec.State)
	}
}

// retireAll lets machines have no more jobs.
func (f *book) retireAll(now time.Time) {
	for _, request := range f.requestsOf(func(m *machine) bool { return m.rec.State < scale.Failed }) {
		f.scale.Retire(now, request, "the fleet is shut down")
	}
}
