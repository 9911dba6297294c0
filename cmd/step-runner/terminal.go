package main

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

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/catalog/terminal"
)

func (a *app) terminalCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "terminal SOCKET",
		Short: "Attach to a terminal that a step has opened",
		Long: `terminal attaches to the shell that a step builtin://terminal has opened, on the same machine and as the same user. The step's log
says what SOCKET is. The terminal is closed when the shell ends, and the step with it.

At the beginning of a line, ~. leaves at once, for a shell that hangs; ~~ is one ~.

Exit codes: 0 the shell ended · 2 usage · 4 not allowed, or somebody else is there · 5 the connection was lost · 6 there is no
terminal · 130 left`,
		Example: `  step-runner terminal /tmp/terminal-123/socket
  echo 'env | sort' | step-runner terminal /tmp/terminal-123/socket`,
		Args: arguments(1, 1, "the socket of the terminal"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.terminal(ctx, args[0])
		},
	}
}

func (a *app) terminal(ctx context.Context, socket string) error {
	why, err := a.attach(ctx, socket)
	switch {
	case err == nil:
		fmt.Fprintf(a.stderr, "%s\n", why)
		return nil
	case ctx.Err() != nil, errors.Is(err, terminal.ErrLeft):
		return &shown{exitInterrupted}
	case errors.Is(err, terminal.ErrRefused):
		return coded(exitDenied, "%s: %v", socket, err)
	case errors.Is(err, fs.ErrPermission):
		return coded(exitDenied, "%s belongs to another user", socket).hinted("only the user of the job can attach to its terminal")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return coded(exitNotFound, "no terminal waits at %s", socket).hinted("the step has ended, or the job is on another machine")
	}
	return coded(exitSystem, "%s: %v", socket, err)
}

// attach opens the terminal. When it returns, that of the person is as it was.
func (a *app) attach(ctx context.Context, socket string) (why string, err error) {
	person := terminal.Person{Input: a.stdin, Output: a.stdout, Term: a.getenv("TERM")}
	in, ok := a.stdin.(*os.File)
	if !ok || !isTerminal(in) || !isTerminal(a.stdout) {
		return terminal.Attach(ctx, socket, person)
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), old)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	person.Escape, person.Sizes = true, a.terminalSizes(ctx)
	return terminal.Attach(ctx, socket, person)
}

// terminalSizes sends the size of the person's terminal, and every new one.
func (a *app) terminalSizes(ctx context.Context) <-chan process.Size {
	from, stop := watchSize(a.stdout)
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
