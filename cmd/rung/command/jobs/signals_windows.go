package jobs

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// listen returns the signals that tell a manager something, from now on.
func listen() (incoming chan os.Signal) {
	incoming = make(chan os.Signal, 8)
	signal.Notify(incoming, syscall.SIGTERM, os.Interrupt)
	return incoming
}

// ends reports whether a manager without jobs ends on a signal.
func ends(os.Signal) bool { return true }

// obey stops on Ctrl-C, and reads the configuration when it changes, until ctx ends.
func obey(ctx context.Context, m *managed, incoming <-chan os.Signal) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	stopped := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.reload(ctx, false)
		case <-m.rotated:
			m.reload(ctx, true)
		case sig := <-incoming:
			if stopped {
				m.killNow(sig)
				continue
			}
			stopped = true
			m.stopAfter("the runner is stopped (" + sig.String() + ")")
		}
	}
}
