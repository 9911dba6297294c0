// Package endpoint runs the service for runs of steps, on the addresses and sockets where it listens.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

const (
	// lingerTime is how long a server that is told to end lets clients fetch how their runs ended.
	lingerTime = 2 * time.Second
	// DrainTime is how long it then waits for calls that are under way.
	DrainTime = 5 * time.Second
)

// ServiceFlags say how a service behaves, however clients reach it.
type ServiceFlags struct {
	limits service.Limits
	From   components.Flags
	// rulesOf is the project whose .rung/sources.toml counts; empty is the work directory's.
	rulesOf string
	metrics string   // the address of the metrics; empty is none
	pass    bool     // steps get the whole environment of this process, its HOME included
	image   []string // variables of the image that this process has not, for steps; with pass
	both    bool     // standard output, too, tells that the server listens
}

func (o *ServiceFlags) flags(f *pflag.FlagSet) {
	l := &o.limits
	f.IntVar(&l.Runs, "max-runs", service.DefaultRuns, "run at most `N` runs at once")
	f.IntVar(&l.Kept, "max-kept", service.DefaultKept, "keep at most `N` finished runs for clients")
	f.IntVar(&l.Followers, "max-followers", service.DefaultFollowers, "serve at most `N` followers at once")
	l.LogBytes, l.RequestBytes = service.DefaultLogBytes, service.DefaultRequestBytes
	f.Var(quantity.SizeVar(&l.LogBytes), "max-log", "keep at most `SIZE` (500MB, 2GiB) of the log of a run")
	f.Var(quantity.SizeVar(&l.RequestBytes), "max-request", "accept requests of at most `SIZE`")
	f.DurationVar(&l.Duration, "max-duration", service.DefaultDuration, "stop a run after `TIME`")
	f.DurationVar(&l.Keep, "keep", service.DefaultKeep, "keep a finished run for `TIME` if no client closes it")
	f.DurationVar(&l.AbandonAfter, "abandon-after", service.DefaultAbandonAfter, "stop a run if no client asks about it for `TIME`")
	f.DurationVar(&l.Pause, "max-pause", service.DefaultPause, "stop a run that is paused for longer than `TIME`")
	f.StringVar(&o.rulesOf, "rules-of", "", "use the sources.toml of the project in `DIR`, wherever jobs run")
	f.BoolVar(&o.pass, "pass-environment", false, "give steps the whole environment of this process, HOME included")
	f.StringArrayVar(&o.image, "image-variable", nil, "with --pass-environment, give steps `NAME=VALUE` where this process has no such variable")
	f.BoolVar(&o.both, "announce-on-both", false, "say on standard output, too, that the server listens")
	for _, name := range []string{"rules-of", "pass-environment", "image-variable", "announce-on-both"} {
		_ = f.MarkHidden(name) // for the program that starts the server
	}
	o.From.Declare(f)
}

// Check refuses limits that let nothing through.
func (o *ServiceFlags) Check() error {
	l := &o.limits
	if l.Runs <= 0 || l.Kept <= 0 || l.Followers <= 0 || l.LogBytes <= 0 || l.RequestBytes <= 0 || l.Duration <= 0 || l.Keep <= 0 || l.AbandonAfter <= 0 || l.Pause <= 0 {
		return exit.Usage("a limit must be more than 0")
	}
	return nil
}

// Open makes a service that runs steps as this program does.
func (o *ServiceFlags) Open(p *command.Program, followOnly bool) (*service.Service, error) {
	svc, err := service.New(service.Options{
		Parse:  gitlabsteps.ParseSteps,
		Engine: func() engine.Options { return o.engineOptions(p) },
		Sources: func(of service.SourcesOf) (source.Source, error) {
			from, err := o.sources(p, of)
			if err != nil {
				return nil, exit.AsEvent(err)
			}
			return from, nil
		},
		RuntimeDigest: runner.Digest,
		Log:           func(line string) { fmt.Fprintln(p.Stderr, "step-runner:", line) },
		Limits:        o.limits,
		FollowOnly:    followOnly,
	})
	if err != nil {
		return nil, exit.Coded(exit.System, "%v", err)
	}
	return svc, nil
}

// sources are those of one run. A client that says what references are locked to, or which project's rules count, has the project: nothing waits
// for the run's own.
func (o *ServiceFlags) sources(p *command.Program, of service.SourcesOf) (*source.Resolver, error) {
	flags := o.From.Locking(of.Lock)
	if of.ChecksOut && of.Lock == nil && o.rulesOf == "" {
		from, err := flags.OpenAhead(p, of.Folder, of.WorkDir)
		if err != nil {
			return nil, err
		}
		read := from.Project.Read
		from.Project.Read = func() (*lock.File, source.Rules, error) {
			locked, rules, err := read()
			if err != nil {
				return nil, nil, exit.AsEvent(err)
			}
			return locked, rules, nil
		}
		return from, nil
	}
	from, err := flags.Open(p, of.Folder, of.WorkDir)
	if err == nil && o.rulesOf != "" {
		from.Rules, err = o.From.Rules(p, o.rulesOf)
	}
	return from, err
}

// engineOptions are those of every run.
func (o *ServiceFlags) engineOptions(p *command.Program) engine.Options {
	out := runner.EngineOptions(p)
	out.Programs = true // its client may keep a trace
	if o.pass {
		out.HostHome, out.Env = true, map[string]string{}
		for _, pair := range slices.Concat(o.image, p.Env) {
			if name, text, _ := strings.Cut(pair, "="); text != "" || out.Env[name] == "" {
				out.Env[name] = text
			}
		}
	}
	return out
}

// Serve serves what open listens on, until it is told to end. From the moment that it listens, a signal is a request to end. owner may be
// nil.
func (o *ServiceFlags) Serve(ctx context.Context, p *command.Program, owner *Owner, open func() ([]*Endpoint, error)) error {
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
	defer CloseAll(endpoints)
	svc, err := o.Open(p, false)
	if err != nil {
		return err
	}
	defer svc.Close()
	if o.metrics != "" {
		stop, err := serveMetrics(p, svc, o.metrics)
		if err != nil {
			return err
		}
		defer stop()
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	failed, left := make(chan error, len(endpoints)), owner.watch(watching, p.Stdin, endpoints)
	for _, e := range endpoints {
		if o.both {
			fmt.Fprintf(p.Stdout, "step-runner is listening on %s%s\n", e.Name, e.also)
		}
		e.Start(svc, failed) // which may write to standard output, too
		fmt.Fprintf(p.Stderr, "step-runner is listening on %s\n", e.Name)
	}
	select {
	case sig := <-stops:
		fmt.Fprintf(p.Stderr, "step-runner: %s, stopping %s\n", signals.Stop(sig).Reason, quantity.Count(svc.Active(), "run"))
	case err = <-failed:
		err = exit.Coded(exit.System, "%v", err)
	case why := <-left:
		fmt.Fprintf(p.Stderr, "step-runner: %s, exiting at once\n", why)
		return nil // which kills what runs; connections end with this process
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
func windDown(ctx context.Context, svc *service.Service, endpoints []*Endpoint) {
	for _, e := range endpoints {
		e.Server.NotServing()
	}
	if svc.Active() > 0 {
		svc.Stop(ctx)
		linger, cancel := context.WithTimeout(ctx, lingerTime)
		svc.Settled(linger)
		cancel()
	}
	drain, cancel := context.WithTimeout(ctx, DrainTime)
	defer cancel()
	for _, e := range endpoints {
		e.Server.Stop(drain)
	}
}

// ListenError is the error of a place where a server cannot listen.
func ListenError(err error) error {
	if errors.Is(err, service.ErrInUse) {
		return exit.Coded(exit.System, "%v", err).Hinted("use that one, end it, or listen elsewhere")
	}
	return exit.Coded(exit.System, "%v", err)
}
