package fleet

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Calls that were given up come while the fleet ends, and nothing that they begin outlives it. The race detector judges it, too.
func TestNothingBeginsOnceTheBackgroundHasEnded(t *testing.T) {
	for range 200 {
		var b background
		var ended, late atomic.Bool
		var callers sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			callers.Go(func() {
				<-start
				for b.Go(func() { late.Store(late.Load() || ended.Load()) }) {
				}
			})
		}
		close(start)
		b.end()
		ended.Store(true)
		callers.Wait()
		if late.Load() {
			t.Fatal("something ran after the end")
		}
		if b.Go(func() { late.Store(true) }) || late.Load() {
			t.Fatal("something began after the end")
		}
	}
}
