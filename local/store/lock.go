package store

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// patience is how long a lock may take before somebody is told that it is waited for.
const patience = 200 * time.Millisecond

// groups are the resource groups that this process holds or waits for, by the file of their lock: an operating system's lock may
// belong to the process, not to who asked for it.
var groups struct {
	sync.Mutex
	held map[string]chan struct{} // of capacity 1; full while somebody holds the group
}

// Lock waits until no other job, in this process or another one of this user, holds a resource group of the project. It calls waiting
// when that does not happen at once. The function that it returns gives the group back.
func (s *Store) Lock(ctx context.Context, group string, waiting func()) (release func(), err error) {
	dir, err := s.folder(filepath.Join(s.root, "locks"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, Slug(group)+".lock")
	turn := turnFor(path)
	told := false
	select {
	case turn <- struct{}{}:
	default:
		told = true
		waiting()
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	unlock, err := lockFile(ctx, path, func() {
		if !told {
			waiting()
		}
	})
	if err != nil {
		<-turn
		return nil, err
	}
	return func() { unlock(); <-turn }, nil
}

func turnFor(path string) chan struct{} {
	groups.Lock()
	defer groups.Unlock()
	if groups.held == nil {
		groups.held = map[string]chan struct{}{}
	}
	turn := groups.held[path]
	if turn == nil {
		turn = make(chan struct{}, 1)
		groups.held[path] = turn
	}
	return turn
}

// lockFile waits for the lock of other processes. Such a wait cannot be ended: one that is given up gives the lock back when it comes.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	locked := make(chan result)
	abandoned := make(chan struct{})
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		select {
		case locked <- result{unlock, err}:
		case <-abandoned:
			if err == nil {
				unlock()
			}
		}
	}()
	patience := time.NewTimer(patience)
	defer patience.Stop()
	for {
		select {
		case r := <-locked:
			return r.unlock, r.err
		case <-patience.C:
			waiting()
		case <-ctx.Done():
			close(abandoned)
			return nil, context.Cause(ctx)
		}
	}
}
