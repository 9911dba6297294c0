package background

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// Calls that were given up come while the group ends, and nothing that they begin outlives it. The race detector judges it, too.
func TestNothingBeginsOnceTheGroupHasEnded(t *testing.T) {
	for range 200 {
		var g Group
		var ended, late atomic.Bool
		var callers sync.WaitGroup
		begun := make(chan struct{}, 1)
		for range 4 {
			callers.Go(func() {
				for range 50 { // some before the end, most of the time some after it
					if g.Go(func() { late.Store(late.Load() || ended.Load()) }) {
						select {
						case begun <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		<-begun
		g.End()
		ended.Store(true)
		callers.Wait()
		if late.Load() {
			t.Fatal("something ran after the end")
		}
		if g.Go(func() { late.Store(true) }) || late.Load() {
			t.Fatal("something began after the end")
		}
	}
}

func TestTheEndIsNotWaitedForBeyondAContext(t *testing.T) {
	var g Group
	release := make(chan struct{})
	g.Go(func() { <-release })
	given := errors.New("given up")
	ctx, giveUp := context.WithCancelCause(t.Context())
	giveUp(given)
	if err := g.EndWithin(ctx); !errors.Is(err, given) {
		t.Errorf("what goes on was not waited for, and the error is %v", err)
	}
	close(release)
	if err := g.EndWithin(t.Context()); err != nil {
		t.Error(err)
	}
	if g.Go(func() {}) {
		t.Error("something began after the end")
	}
}
