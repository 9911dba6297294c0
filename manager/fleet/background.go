package fleet

import "sync"

// background is what a fleet does beside its calls. Calls that were given up may want more of it while the fleet ends.
type background struct {
	mu    sync.Mutex
	ended bool
	busy  sync.WaitGroup
}

// Go does something in the background, and reports whether it does: not once the background has ended.
func (b *background) Go(do func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.busy.Go(do)
	}
	return !b.ended
}

// end waits for all that was begun, and lets nothing else begin.
func (b *background) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.busy.Wait()
}
