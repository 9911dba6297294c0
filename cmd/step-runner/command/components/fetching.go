package components

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

// slowFetch is how long a fetch takes before a person is told of it.
const slowFetch = time.Second

// Fetching returns a context for following references where no run does: a signal ends it, and so does the limit, unless it is 0.
// What is fetched slowly is shown on a terminal. Stop has to be called.
func Fetching(ctx context.Context, p *command.Program, limit time.Duration) (fetch context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := func() {}
	if limit > 0 {
		ctx, release = context.WithTimeoutCause(ctx, limit, exit.Coded(exit.Timeout, "timed out after %v while the step was being fetched", limit))
	}
	incoming := make(chan os.Signal, 1)
	signal.Notify(incoming, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case sig := <-incoming:
			signal.Stop(incoming) // the next one ends the program
			cancel(exit.Coded(exit.Interrupted, "%s", signals.Stop(sig).Reason))
		case <-done:
		}
	}()
	shown := &fetchLine{to: p.Stderr, began: time.Now()}
	if screen.IsTerminal(p.Stderr) {
		ctx = source.WithProgress(ctx, shown.show)
	}
	return ctx, func() {
		signal.Stop(incoming)
		close(done)
		release()
		cancel(nil)
		shown.clear()
	}
}

// fetchLine is one line on a terminal that says how far a fetch is.
type fetchLine struct {
	to    *os.File
	began time.Time

	mu    sync.Mutex
	shown bool
}

func (l *fetchLine) show(p event.Progress) {
	if time.Since(l.began) < slowFetch {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	how := fmt.Sprintf("%d %s", p.Current, p.Unit)
	if p.Unit == "bytes" {
		how = bytesize.Format(p.Current)
		if p.Total > 0 {
			how += " of " + bytesize.Format(p.Total)
		}
	}
	width, _ := screen.Size(l.to)
	text := []rune(fmt.Sprintf("%s  %s", p.Title, how))
	fmt.Fprintf(l.to, "\r\x1b[K%s", string(text[:min(len(text), max(width-1, 0))]))
	l.shown = true
}

func (l *fetchLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.to, "\r\x1b[K")
	}
}
