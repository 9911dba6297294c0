package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/catalog/terminal"
)

func (a *app) terminalCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "terminal SOCKET",
		Short: "Attach to the terminal of a step",
		Long: `terminal attaches to the shell that the step builtin://terminal opened, on the same machine and as the same user. The log of
the step shows SOCKET. When the shell exits, the step ends.

At the beginning of a line, ~. detaches and leaves the shell running; ~~ sends one ~. Piped input is sent to the shell, and
its end is the end of the shell's input.

Exit codes: 0 detached · 2 usage · 4 not allowed, or already attached · 5 the connection broke, or the step closed the
terminal · 6 no such terminal · 130 interrupted; otherwise that of the shell`,
		Example: `  step-runner terminal /tmp/terminal-123/socket
  echo 'env | sort' | step-runner terminal /tmp/terminal-123/socket`,
		Args: command.Arguments(1, 1, "the socket of the terminal"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.terminal(ctx, args[0])
		},
	}
}

func (a *app) terminal(ctx context.Context, socket string) error {
	end, err := a.attach(ctx, socket)
	var refused *terminal.RefusedError
	switch {
	case ctx.Err() != nil:
		return exit.Shown(exit.Interrupted)
	case errors.As(err, &refused):
		return exit.Coded(exit.Denied, "%s: %v", socket, err)
	case errors.Is(err, fs.ErrPermission):
		return exit.Coded(exit.Denied, "%s belongs to another user", socket).Hinted("only the user of the job can attach to its terminal")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return exit.Coded(exit.NotFound, "there is no terminal at %s", socket).Hinted("the step has ended, or the job is on another machine")
	case err != nil:
		return exit.Coded(exit.System, "%s: %v", socket, err)
	case end.Detached:
		fmt.Fprintf(a.Stderr, "Detached; the terminal is still open.\n")
		return nil
	}
	fmt.Fprintf(a.Stderr, "The terminal is closed: %s.\n", end.Reason)
	switch {
	case end.ExitCode < 0:
		return exit.Shown(exit.System)
	case end.ExitCode > 0:
		return exit.Shown(end.ExitCode)
	}
	return nil
}

// attach attaches, and carries what is typed and shown. When it returns, the person's own terminal is as it was.
func (a *app) attach(ctx context.Context, socket string) (end terminal.End, err error) {
	in, ok := a.Stdin.(*os.File)
	if !ok || !screen.IsTerminal(in) {
		c, err := terminal.Dial(ctx, socket, terminal.Person{})
		if err != nil {
			return end, err
		}
		return c.Carry(ctx, terminal.Streams{In: a.Stdin, Out: a.Stdout})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	person := terminal.Person{Kind: a.Getenv("TERM")}
	if columns, rows, err := term.GetSize(int(in.Fd())); err == nil {
		person.Size = process.Size{Columns: uint16(columns), Rows: uint16(rows)}
	}
	c, err := terminal.Dial(ctx, socket, person)
	if err != nil {
		return end, err
	}
	fmt.Fprintf(a.Stderr, "Attached; %s.\n", terminal.EscapeHelp)
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		c.Close()
		return end, err
	}
	defer func() {
		if end.Detached {
			fmt.Fprint(a.Stdout, terminalReset) // what runs in there may have changed it
		}
		err = errors.Join(err, term.Restore(int(in.Fd()), old))
	}()
	return c.Carry(ctx, terminal.Streams{In: in, Out: a.Stdout, Sizes: terminalSizes(ctx, in), Interactive: true})
}

// terminalReset leaves a full screen, shows the cursor, takes off colours, and begins a line.
const terminalReset = "\x1b[?1049l\x1b[?25h\x1b[0m\r\n"

// terminalSizes sends the size of the person's terminal, and every new one.
func terminalSizes(ctx context.Context, f *os.File) <-chan process.Size {
	from, stop := screen.WatchSize(f)
	to := make(chan process.Size)
	go func() {
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case size := <-from:
				select {
				case <-ctx.Done():
					return
				case to <- process.Size(size):
				}
			}
		}
	}()
	return to
}
