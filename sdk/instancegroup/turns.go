package instancegroup

import (
	"context"
	"sync"
)

// Turns let one call at a time be at each thing, such as a volume. The zero value is ready. It is safe for concurrent use.
type Turns struct {
	mu  sync.Mutex
	all map[string]*turn
}

type turn struct {
	free  chan struct{} // holds a token while nobody is at it
	calls int           // that are at it, or wait
}

// Take waits until nobody else is at a thing, or ctx ends. The caller says when it is done.
func (t *Turns) Take(ctx context.Context, id string) (done func(), err error) {
	t.mu.Lock()
	if t.all == nil {
		t.all = map[string]*turn{}
	}
	one := t.all[id]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		t.all[id] = one
	}
	one.calls++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.calls--; one.calls == 0 {
			delete(t.all, id)
		}
	}
	if ctx.Err() == nil {
		select {
		case <-one.free:
			return func() { one.free <- struct{}{}; leave() }, nil
		case <-ctx.Done():
		}
	}
	leave()
	return nil, context.Cause(ctx)
}
