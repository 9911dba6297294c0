package dev

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/internal/shellword"
)

func gitlabCommand(p *command.Program, place func(string) Place) *cobra.Command {
	var o runFlags
	var withRunner bool
	cmd := &cobra.Command{
		Use:   "gitlab [FOLDER]",
		Short: "Serve a folder as a project of a small GitLab, with a page",
		Long: `gitlab serves the project in FOLDER (default: the current one) until it is interrupted: the runner API, the sources of the project, and a page with its
pipelines, which a button starts, and with terminals of running jobs. Any runner can take the jobs; the token and an entry for its config.toml are printed. --runner starts one as well.

The page is for who has the address that is printed: it holds a token. Who has it can also type commands into the terminals of jobs. Nothing is reachable from other machines unless --listen says so, and nothing is
encrypted.`,
		Example: `  rung dev gitlab --runner
  rung dev gitlab ./web --listen 127.0.0.1:8929`,
		Args: command.Arguments(0, 1, "a folder"),
	}
	o.declare(cmd)
	o.declareRunner(cmd)
	cmd.Flags().BoolVar(&withRunner, "runner", false, "start a runner, too, as run does")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder := "."
		if len(args) > 0 {
			folder = args[0]
		}
		if err := o.valid(); err != nil {
			return err
		}
		return o.serve(cmd.Context(), p, place(o.stepRunner), folder, withRunner)
	}
	return cmd
}

// serve serves a folder until it is interrupted.
func (o *runFlags) serve(ctx context.Context, p *command.Program, place Place, folder string, withRunner bool) error {
	interrupted, kill, end := signals.Handle(ctx, nil)
	defer end()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	address, err := o.address(ctx, place)
	if err != nil {
		stop()
		return err
	}
	s, err := o.start(ctx, p, folder, address)
	if err != nil {
		stop()
		return err
	}
	defer func() { stop(); s.close() }()
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			p.Tell("other machines can reach " + s.url + ", which is not encrypted: who sees the tokens can use them")
		}
	}
	if o.sessions, err = freeAddress(); err != nil {
		return err
	}
	path := filepath.Join(s.folder, "config.toml")
	if err := os.WriteFile(path, []byte(o.configuration(s)), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "Page:         %s\nRunner token: %s\n", s.PageURL(), s.RunnerToken())
	if !withRunner {
		_, entry, _ := strings.Cut(o.configuration(s), "\n\n")
		fmt.Fprintf(p.Stdout, "\nA runner for it:\n  rung run --config %s --state %s\nor any other runner, with this in its config.toml:\n\n%s", shellword.Of(path), shellword.Of(filepath.Join(s.folder, "runner")), entry)
		<-interrupted.Done()
		return nil
	}
	m, err := o.manager(p, place, s)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	fmt.Fprintln(p.Stdout, "A runner waits for its jobs.")
	select {
	case err := <-done:
		return err
	case <-interrupted.Done():
		m.Stop("the runner was interrupted")
	}
	select {
	case err := <-done:
		return err
	case <-kill:
		m.Kill("the runner was interrupted again")
		return <-done
	}
}

// freeAddress is a free port of this machine, which a runner that is started again still has.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", exit.Coded(exit.System, "finding a port for terminals: %v", err)
	}
	return listener.Addr().String(), listener.Close()
}
