//go:build !linux

package process

import (
	"context"
	"time"
)

// attend sees to a process until it has ended. It reports whether it stopped it.
func attend(ctx context.Context, kill <-chan struct{}, grace time.Duration, c *child, out *output) (stopped bool) {
	return attendInBackground(ctx, kill, grace, c, out)
}
