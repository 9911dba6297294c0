package main

import (
	"sync"
	"time"
)

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
