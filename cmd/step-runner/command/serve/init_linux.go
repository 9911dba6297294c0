package serve

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// bySignal is added to a signal for the exit code of who was ended by it, as shells do.
const bySignal = 128

// initCommand runs a program as its child, as the first process of a container has to: the kernel protects that one from signals of all others in it,
// and hands it the orphans. Engines of containers have one of their own, whose input and output every process of its user can open; nodes of a cluster have none.
func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "init PROGRAM [ARGUMENT…]",
		Short:              "Be the first process of a container, for a program",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("a program is missing")
			}
			code, err := firstProcess(args)
			if err != nil {
				return exit.Coded(notFound, "%v", err)
			}
			if code != 0 {
				return exit.Shown(code)
			}
			return nil
		},
	}
}

// firstProcess returns how the program has ended.
func firstProcess(args []string) (code int, err error) {
	signals := make(chan os.Signal, 8) //nolint:mnd // some, so that none is lost
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	program := exec.Command(args[0], args[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := program.Start(); err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", args[0], err)
	}
	go func() {
		for s := range signals {
			_ = program.Process.Signal(s) // it may have ended
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("cannot wait for %s: %w", args[0], err)
		case pid == program.Process.Pid && status.Signaled():
			return bySignal + int(status.Signal()), nil
		case pid == program.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
