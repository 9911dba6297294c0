package main

import "sync"

// maxRemembered is of how many instances something is remembered.
const maxRemembered = 10_000

// remembered is what was found out of instances, and does not change. The zero value is empty. It is safe for concurrent use.
type remembered[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

func (r *remembered[T]) get(key string) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.all[key]
	return value, ok
}

func (r *remembered[T]) put(key string, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxRemembered {
		r.all = map[string]T{}
	}
	r.all[key] = value
}

func (r *remembered[T]) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}
