// Package background is what something does beside its calls, and waits for before it is over.
package background

import (
	"context"
	"sync"
)

// Group is what something does in the background. Unlike a sync.WaitGroup, it may be asked for more while it is waited for: calls that were given up
// go on while that which they are of ends. The zero value is a group with nothing in it.
type Group struct {
	mu    sync.Mutex
	ended bool
	busy  sync.WaitGroup
}

// Go does something in the background, and reports whether it does: not once the group has ended.
func (g *Group) Go(do func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.busy.Go(do)
	}
	return !g.ended
}

// End lets nothing else begin, and waits for all that was begun.
func (g *Group) End() { _ = g.EndWithin(context.Background()) }

// EndWithin is End that waits until ctx ends at most; the error is then its cause. What was begun goes on.
func (g *Group) EndWithin(ctx context.Context) error {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	over := make(chan struct{})
	go func() {
		g.busy.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
