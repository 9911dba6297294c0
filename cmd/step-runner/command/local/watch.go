package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/local"
)

// keepWatching runs the jobs, and again whenever files change, until it is told to end.
func (o *localFlags) keepWatching(ctx context.Context, once func(context.Context, string, []string) error, file string, names []string) error {
	// Also an interrupt that comes too late to stop a run ends it all.
	told, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		watch, err := local.Watch(ctx, o.event.ProjectDir, o.app.Env)
		if err != nil {
			return exit.Coded(exit.System, "watching the project's files: %v", err)
		}
		err = once(ctx, file, names)
		switch {
		case exit.IsShown(err, exit.Interrupted):
			return err
		case err != nil:
			_, text := exit.Report(err)
			fmt.Fprint(o.app.Stderr, text)
		}
		if told.Err() == nil {
			fmt.Fprintln(o.app.Stderr, "waiting for files to change; Ctrl-C ends it")
		}
		changed, err := watch.Wait(told)
		switch {
		case told.Err() != nil:
			return exit.Shown(exit.Interrupted)
		case err != nil:
			return exit.Coded(exit.System, "watching the project's files: %v", err)
		}
		fmt.Fprintf(o.app.Stderr, "%s changed, running again\n", cleantext.Line(changed))
	}
}
