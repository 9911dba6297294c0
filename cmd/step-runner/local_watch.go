package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rungci/rung/local"
)

// keepWatching runs the jobs, and again whenever files change, until it is told to end.
func (o *localFlags) keepWatching(ctx context.Context, once func(context.Context, string, []string) error, file string, names []string) error {
	// Also an interrupt that comes too late to stop a run ends it all.
	told, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		watch, err := local.Watch(ctx, o.event.projectDir, o.app.env)
		if err != nil {
			return coded(exitSystem, "watching the project's files: %v", err)
		}
		err = once(ctx, file, names)
		var done *shown
		switch {
		case errors.As(err, &done) && done.code == exitInterrupted:
			return err
		case err != nil:
			_, text := report(err)
			fmt.Fprint(o.app.stderr, text)
		}
		if told.Err() == nil {
			fmt.Fprintln(o.app.stderr, "waiting for files to change; Ctrl-C ends it")
		}
		changed, err := watch.Wait(told)
		switch {
		case told.Err() != nil:
			return &shown{exitInterrupted}
		case err != nil:
			return coded(exitSystem, "watching the project's files: %v", err)
		}
		fmt.Fprintf(o.app.stderr, "%s changed, running again\n", changed)
	}
}
