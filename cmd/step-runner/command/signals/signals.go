// Package signals defines what interrupts do to commands.
package signals

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/rungci/rung/steps/event"
)

// Handle makes the first interrupt a graceful stop and the second one a kill. A terminal that closes is the first; it may say
// so more than once. force, which may be nil, is closed to end everything at once as the second one does. A reader of the output that goes away ends nothing: the write fails, as on a full disk, and the run goes on.
func Handle(ctx context.Context, force <-chan struct{}) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	kill := make(chan struct{})
	killOnce := sync.OnceFunc(func() { close(kill) })
	incoming, pipes := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(incoming, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is under nohup
		signal.Notify(incoming, syscall.SIGHUP)
	}
	signal.Notify(pipes, syscall.SIGPIPE) // nothing reads it; without it the write would end the program
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case sig := <-incoming:
				if ctx.Err() != nil && sig != syscall.SIGHUP {
					killOnce()
				}
				cancel(Stop(sig))
			case <-force:
				killOnce()
				<-done
				return
			case <-done:
				return
			}
		}
	})
	return ctx, kill, func() {
		signal.Stop(incoming)
		signal.Stop(pipes)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}

// Stop says why a signal ends a run.
func Stop(sig os.Signal) *event.Stop {
	switch sig {
	case os.Interrupt:
		return &event.Stop{Code: event.CodeInterrupted, Reason: "interrupted"}
	case syscall.SIGHUP:
		return &event.Stop{Code: event.CodeTerminated, Reason: "the terminal was closed"}
	}
	return &event.Stop{Code: event.CodeTerminated, Reason: "terminated"}
}
