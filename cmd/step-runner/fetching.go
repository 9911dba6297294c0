package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

// slowFetch is how long a fetch takes before a person is told of it.
const slowFetch = time.Second

// fetching returns a context for following references where no run does: a signal ends it, and so does the limit, unless it is 0.
// What is fetched slowly is shown on a terminal. Stop has to be called.
func (a *app) fetching(ctx context.Context, limit time.Duration) (fetch context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := func() {}
	if limit > 0 {
		ctx, release = context.WithTimeoutCause(ctx, limit, coded(exitTimeout, "time ran out after %v, while the step was fetched", limit))
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals) // the next one ends the program
			cancel(coded(exitInterrupted, "%s", stopOf(sig).Reason))
		case <-done:
		}
	}()
	shown := &fetchLine{to: a.stderr, began: time.Now()}
	if isTerminal(a.stderr) {
		ctx = source.WithProgress(ctx, shown.show)
	}
	return ctx, func() {
		signal.Stop(signals)
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
		how = bytesText(p.Current)
		if p.Total > 0 {
			how += " of " + bytesText(p.Total)
		}
	}
	width, _ := terminalSize(l.to)
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
