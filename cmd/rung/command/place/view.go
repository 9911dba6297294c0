package place

import (
	"context"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// refresh is how often --watch asks.
const refresh = time.Second

// View is how a command shows what the manager says: as a table or as JSON, once or until Ctrl-C.
type View struct {
	format string
	watch  bool
}

// Flags adds the flags.
func (v *View) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&v.format, "format", "f", "text", "print `FORMAT`: text, json")
	f.BoolVarP(&v.watch, "watch", "w", false, "show it again every second, until Ctrl-C")
	command.Complete(cmd, "format", "text", "json")
}

// Check refuses values of the flags that do not exist.
func (v *View) Check() error { return command.OneOf("--format", v.format, "text", "json") }

// Show asks, and shows the answer. A table begins with clear, which empties a terminal that shows it again and again.
func Show[T any](ctx context.Context, p *command.Program, v *View, ask func(context.Context) (T, error), table func(to io.Writer, clear string, answer T) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	clear := ""
	if v.watch && v.format == "text" && term.IsTerminal(int(p.Stdout.Fd())) {
		clear = "\x1b[H\x1b[2J"
	}
	for {
		answer, err := ask(ctx)
		switch {
		case err != nil:
			return err
		case v.format == "json":
			err = command.WriteJSON(p.Stdout, answer)
		default:
			err = table(p.Stdout, clear, answer)
		}
		if err != nil || !v.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(refresh):
		}
	}
}
