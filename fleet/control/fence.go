package control

import "github.com/rungci/rung/fleet/store"

// watchFence ends all that the fleet does as soon as another process has its store: calls that are under way are given up, no other one is made, and nobody
// gets a slot. Machines and jobs stay as they are, for that process.
func (f *Fleet) watchFence(of store.Fenced) {
	select {
	case <-of.Lost():
	case <-f.life.Done():
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	f.stop()
	f.end()
	for _, j := range f.jobs {
		j.change()
	}
	f.log.Error("another manager has the machines of the fleet now; this one makes and removes none any more")
}
