//go:build unix && !linux && !darwin

package process

// awaitEnd blocks until the main process has ended. There is no portable way to do so and leave it unreaped, so the group is
// killed right after its leader has been reaped.
func (c *child) awaitEnd() { c.reap() }
