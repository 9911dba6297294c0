package main

import (
	"context"
	"sync"
	"time"
)

// turns let one call at a time be at each volume. The zero value is ready. They are safe for concurrent use.
type turns struct {
	mu  sync.Mutex
	all map[string]*turn
}

type turn struct {
	free  chan struct{} // holds a token while nobody is at it
	calls int           // that are at it, or wait
}

// take waits until nobody else is at a volume. The caller says when it is done.
func (t *turns) take(ctx context.Context, id string) (done func(), err error) {
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

// lagTime is for how long a list may be older than what this process has done.
const lagTime = 2 * time.Minute

// recent are ids that were used a short while ago. The zero value is empty. It is safe for concurrent use.
type recent struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (r *recent) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[id] = time.Now()
}

// all are those of the last lagTime.
func (r *recent) all() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.at {
		if time.Since(at) > lagTime {
			delete(r.at, id)
		} else {
			ids = append(ids, id)
		}
	}
	return ids
}
