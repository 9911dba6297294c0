package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

const (
	// lingerTime is how long a server that is told to end lets clients fetch how their runs ended.
	lingerTime = 2 * time.Second
	// drainTime is how long it then waits for calls that are under way.
	drainTime = 5 * time.Second
)

func (a *app) serveCommand() *cobra.Command {
	var o serveFlags
	cmd := &cobra.Command{
		Use:   "serve [DIR]",
		Short: "Run steps for other programs, over gRPC",
		Long: `serve waits for clients and runs the steps that they send. docs/service.md says how to write one; those of the existing
step-runner (v0.11) work as they are.

It listens on the unix socket step-runner.sock in DIR, or in the folder for temporary files, to which only your user can
connect. When it is ready it says so on standard error: "step-runner is listening on socket PATH". A socket that a killed
server has left is replaced.

With --listen it listens on a TCP port instead (or as well, when a socket is named). That takes TLS and, for its clients, a
certificate (--tls-client-ca) or a token (--token-file); on a loopback address a token will do. Whoever can connect can run
commands as your user.

The first SIGTERM or SIGINT stops the runs that go on, gracefully, and ends the server; the second one ends all at once.

How a run ends does not change the exit code of the server.

Exit codes: 0 it was told to end · 2 usage · 4 not allowed · 5 our system failed · 6 a folder or file is missing`,
		Example: `  step-runner serve
  step-runner serve --listen 0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem --tls-client-ca clients.pem
  step-runner serve --listen 127.0.0.1:7000 --token-file token`,
		Args: arguments(0, 1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.service.check(); err != nil {
				return err
			}
			if err := o.place(args); err != nil {
				return err
			}
			return a.serve(cmd.Context(), &o.service, func() ([]*endpoint, error) { return o.open(a) })
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// serviceFlags say how a service behaves, however clients reach it.
type serviceFlags struct {
	limits service.Limits
	from   sourceFlags
}

func (o *serviceFlags) flags(f *pflag.FlagSet) {
	l := &o.limits
	f.IntVar(&l.Runs, "max-runs", service.DefaultRuns, "let at most `N` runs go on at once")
	f.IntVar(&l.Kept, "max-kept", service.DefaultKept, "keep at most `N` finished runs for their clients")
	f.IntVar(&l.Followers, "max-followers", service.DefaultFollowers, "let at most `N` clients follow runs at once")
	l.LogBytes, l.RequestBytes = service.DefaultLogBytes, service.DefaultRequestBytes
	f.Var(sizeFlag[int64]{&l.LogBytes}, "max-log", "keep at most `SIZE` (500MB, 2GiB) of the log of a run, which goes on beyond")
	f.Var(sizeFlag[int]{&l.RequestBytes}, "max-request", "accept requests of at most `SIZE`")
	f.DurationVar(&l.Duration, "max-duration", service.DefaultDuration, "stop a run after `TIME`")
	f.DurationVar(&l.Keep, "keep", service.DefaultKeep, "keep a finished run that no client closes for `TIME`")
	f.DurationVar(&l.AbandonAfter, "abandon-after", service.DefaultAbandonAfter, "stop a run when no client has asked for it for `TIME`")
	f.DurationVar(&l.Pause, "max-pause", service.DefaultPause, "stop a run that is paused for longer than `TIME`")
	o.from.flags(f)
}

// check refuses limits that let nothing through.
func (o *serviceFlags) check() error {
	l := &o.limits
	if l.Runs <= 0 || l.Kept <= 0 || l.Followers <= 0 || l.LogBytes <= 0 || l.RequestBytes <= 0 || l.Duration <= 0 || l.Keep <= 0 || l.AbandonAfter <= 0 || l.Pause <= 0 {
		return usage("a limit is more than 0")
	}
	return nil
}

// newService makes a service that runs steps as this program does.
func (a *app) newService(o *serviceFlags, followOnly bool) (*service.Service, error) {
	svc, err := service.New(service.Options{
		Parse:  gitlabsteps.ParseSteps,
		Engine: a.engineOptions,
		Sources: func(folder, workDir string, given *lock.File) (source.Source, error) {
			return a.openResolver(o.from.locking(given), folder, workDir)
		},
		RuntimeDigest: programDigest,
		Log:           func(line string) { fmt.Fprintln(a.stderr, "step-runner:", line) },
		Limits:        o.limits,
		FollowOnly:    followOnly,
	})
	if err != nil {
		return nil, coded(exitSystem, "%v", err)
	}
	return svc, nil
}

// serve serves what open listens on, until it is told to end. From the moment that it listens, a signal is a request to end.
func (a *app) serve(ctx context.Context, o *serviceFlags, open func() ([]*endpoint, error)) error {
	stops := make(chan os.Signal, 4)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(stops, syscall.SIGHUP)
	}
	defer signal.Stop(stops)
	endpoints, err := open()
	if err != nil {
		return err
	}
	defer closeAll(endpoints)
	svc, err := a.newService(o, false)
	if err != nil {
		return err
	}
	defer svc.Close()
	failed := make(chan error, len(endpoints))
	for _, e := range endpoints {
		e.start(svc, failed)
		fmt.Fprintf(a.stderr, "step-runner is listening on %s\n", e.name)
	}
	select {
	case sig := <-stops:
		fmt.Fprintf(a.stderr, "step-runner: %s, stopping %s\n", stopOf(sig).Reason, count(svc.Active(), "run"))
	case err = <-failed:
		err = coded(exitSystem, "%v", err)
	case <-ctx.Done():
	}
	now, atOnce := context.WithCancel(context.WithoutCancel(ctx))
	defer atOnce()
	go func() {
		select {
		case <-stops:
			atOnce()
		case <-now.Done():
		}
	}()
	windDown(now, svc, endpoints)
	return err
}

// windDown ends a service: its runs first, then its streams, then its connections. When ctx ends, all of it ends at once.
func windDown(ctx context.Context, svc *service.Service, endpoints []*endpoint) {
	for _, e := range endpoints {
		e.server.NotServing()
	}
	if svc.Active() > 0 {
		svc.Stop(ctx)
		linger, cancel := context.WithTimeout(ctx, lingerTime)
		svc.Settled(linger)
		cancel()
	}
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for _, e := range endpoints {
		e.server.Stop(drain)
	}
}

// place finds the socket to listen on.
func (o *serveFlags) place(args []string) error {
	switch {
	case len(args) > 0 && o.socket != "":
		return usage("DIR and --socket both say where to listen").hinted("keep one of them")
	case len(args) > 0:
		dir := strings.TrimSpace(args[0])
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return coded(exitNotFound, "%q is not a folder", dir).hinted("the socket %s is made in a folder that exists", service.SocketName)
		}
		o.socket = filepath.Join(dir, service.SocketName)
	case o.socket == "" && o.listen == "":
		o.socket = service.DefaultSocket()
	}
	return nil
}

// listenError is the error of a place where a server cannot listen.
func listenError(err error) error {
	if errors.Is(err, service.ErrInUse) {
		return coded(exitSystem, "%v", err).hinted("use that one, end it, or listen elsewhere")
	}
	return coded(exitSystem, "%v", err)
}
