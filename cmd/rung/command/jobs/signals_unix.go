//go:build unix

package jobs

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// listen keeps signals for obey. SIGUSR2 is not among them yet: until there is a manager, it ends this process as it should, at once.
func listen() chan os.Signal {
	incoming := make(chan os.Signal, 8)
	signal.Notify(incoming, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM, os.Interrupt)
	return incoming
}

// obey does what signals say, and reads the configuration when it changes, until ctx ends.
func obey(ctx context.Context, m *managed, incoming chan os.Signal) {
	signal.Notify(incoming, syscall.SIGUSR2)
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
			switch sig {
			case syscall.SIGHUP:
				m.reload(ctx, true)
			case syscall.SIGQUIT:
				m.log.Info("draining: no more jobs are taken, running ones are finished")
				m.Drain()
			case syscall.SIGUSR2:
				m.log.Info("exiting: running jobs are left to the next manager", "jobs", len(m.Running()))
				os.Exit(0) // as if it was killed: nothing that runs is touched
			default:
				if stopped {
					m.killNow(sig)
					continue
				}
				stopped = true
				m.stopAfter("the runner is stopped (" + sig.String() + ")")
			}
		}
	}
}
