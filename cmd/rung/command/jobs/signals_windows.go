package jobs

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// listen keeps signals for obey.
func listen() chan os.Signal {
	incoming := make(chan os.Signal, 8)
	signal.Notify(incoming, syscall.SIGTERM, os.Interrupt)
	return incoming
}

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
