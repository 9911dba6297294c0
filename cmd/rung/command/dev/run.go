package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/dev/fakegitlab"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/diag"
)

// Place is where jobs run.
type Place struct {
	// Open and Program are those of manager.Options.
	Open    func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error)
	Program func(system, arch string) (string, error)
	// Machines gives Provider and Connect of manager.Options. observe is told what happens in fleets.
	Machines func(log *slog.Logger, observe func(store.Entry)) (
		func(ctx context.Context, r *config.Runner, setup provider.Setup) (provider.Provider, error), func(ctx context.Context, to provider.Access) (host.Host, error))
}

// runFlags are those of `dev run`.
type runFlags struct {
	flags
	stepRunner, isolation, image string
	concurrency                  int
	fleet                        int        // machines at most; 0: jobs run on this one
	machines                     *fleet     // nil: there are none
	unable                       chan error // why the runner cannot run jobs; nil: it waits until it can
	sessions                     string     // where the runner serves terminals; empty is nowhere
	manual                       []string
	quiet                        bool
}

// maxConcurrency is how many jobs run at once when nobody says otherwise.
const maxConcurrency = 4

// keep is how long jobs on machines go on when this program is killed: nobody comes back for them.
const keep = time.Minute

// defaultImage is that of jobs that name none. It has git, which a job gets its sources with.
const defaultImage = "buildpack-deps:scm"

func runCommand(p *command.Program, place func(string) Place) *cobra.Command {
	var o runFlags
	cmd := &cobra.Command{
		Use:   "run [FOLDER] [JOB...]",
		Short: "Run a pipeline through a GitLab and a runner of your own",
		Long: `run starts a small GitLab for the project in FOLDER (default: the current one), and a runner, which is that of rung run. The pipeline runs to its end, each
job with its log. With JOBs only these run, and what they need. When it has ended, nothing is left.

With --fleet N, jobs run on machines that are made when there are jobs, N at most, and ended when nobody needs them: processes of this host (Linux)
with users, a view of the file system and processes of their own. What the fleet does is shown, with its reason.

A FOLDER begins with "/" or ".", or has a .gitlab-ci.yml in it; anything else is a JOB.

Exit codes: 0 success, also where a manual job waits · 1 a job failed · 2 usage · 3 invalid pipeline, or a job that the runner refuses · 5 internal error
· 6 no such job · 124 timeout · 130 interrupted`,
		Example: `  rung dev run
  rung dev run ./web test --isolation container
  rung dev run --fleet 4 --quiet
  rung dev run --fault 429,drop --seed 7`,
		Args: command.Arguments(0, -1, "a folder and jobs"),
	}
	o.declare(cmd)
	o.declareRunner(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.manual, "manual", nil, "start the manual `JOB` as well; \"*\" starts all")
	f.IntVar(&o.fleet, "fleet", 0, "run jobs on a fleet of at most `N` machines of this host")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show how jobs end, and the logs of those that fail only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder := "."
		if len(args) > 0 && isFolder(args[0]) {
			folder, args = args[0], args[1:]
		}
		if o.fleet > 0 && !cmd.Flags().Changed("concurrency") {
			o.concurrency = o.fleet
		}
		if err := o.valid(); err != nil {
			return err
		}
		return o.run(cmd.Context(), p, place(o.stepRunner), folder, args)
	}
	return cmd
}

// declareRunner declares the flags of the runner.
func (o *runFlags) declareRunner(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.stepRunner, "step-runner", "", "run jobs with this step-runner `FILE`, which is else the one beside rung")
	f.StringVar(&o.isolation, "isolation", "none", "run jobs at the isolation `LEVEL`: "+strings.Join(levels.Names(), ", "))
	f.StringVar(&o.image, "image", defaultImage, "in containers, use the image `NAME` for jobs that name none")
	f.StringVar(&o.listen, "listen", "", "let the GitLab listen at `ADDRESS:PORT` (default: a free port on 127.0.0.1, or where containers reach it)")
	f.IntVarP(&o.concurrency, "concurrency", "j", min(runtime.NumCPU(), maxConcurrency), "run up to `N` jobs at once (default: as many as there are processors, 4 at most)")
	f.Lookup("concurrency").DefValue = "0"
	command.Complete(cmd, "isolation", levels.Names()...)
}

// valid checks the flags of the runner.
func (o *runFlags) valid() error {
	switch {
	case o.concurrency < 1:
		return exit.Usage("--concurrency: at least one job has to run")
	case o.fleet < 0:
		return exit.Usage("--fleet: there cannot be %d machines", o.fleet)
	case o.fleet > 0 && o.isolation != "none":
		return exit.Usage("--fleet: jobs on machines of this host run at level none, not %q", o.isolation).Hinted("leave out --isolation")
	}
	return command.OneOf("--isolation", o.isolation, levels.Names()...)
}

// failure gives an error of the project its exit code, with a hint that fits these commands.
func failure(err error) error {
	var unknown *gitlab.UnknownJobError
	switch {
	case errors.As(err, &unknown):
		return exit.Coded(exit.NotFound, "%v", err).Hinted("%s", unknown.Hint)
	case diag.Of(err) == nil && errors.Is(err, fs.ErrNotExist):
		return exit.Coded(exit.NotFound, "%v", err).Hinted("name the folder of the project as the first argument, or the file with --file")
	}
	return project.OpenError(err)
}

// run runs a pipeline.
func (o *runFlags) run(ctx context.Context, p *command.Program, place Place, folder string, jobs []string) error {
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
	o.unable = make(chan error, 1)
	id, err := s.Start(ctx, fakegitlab.Selection{Jobs: jobs, Manual: o.manual})
	if err != nil {
		return failure(err)
	}
	m, err := o.manager(p, place, s)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	go func() {
		select {
		case <-interrupted.Done():
			s.Cancel(id)
		case <-ctx.Done():
			return
		}
		select {
		case <-kill:
			m.Kill("the runner was interrupted again")
		case <-ctx.Done():
		}
	}()
	result := o.watch(p, s, id, done)
	o.machines.rest(ctx, interrupted)
	m.Drain()
	if err := <-done; err != nil {
		return exit.Coded(exit.System, "%v", err)
	}
	for _, v := range s.Violations() {
		p.Tell("the runner did what GitLab would not take: " + v)
	}
	if interrupted.Err() != nil {
		return exit.Shown(exit.Interrupted)
	}
	return result
}

// address is where the GitLab listens: on loopback, unless jobs are in containers, which have a loopback of their own.
func (o *runFlags) address(ctx context.Context, place Place) (string, error) {
	if o.listen != "" || executor.Level(o.isolation).Rank() < executor.Container.Rank() {
		return cmp.Or(o.listen, "127.0.0.1:0"), nil
	}
	bridge, other := hostAddresses()
	if ip := cmp.Or(bridge, other); ip != "" {
		return net.JoinHostPort(ip, "0"), nil
	}
	if err := o.tryLevel(ctx, place); err != nil { // then no address is of use
		return "", err
	}
	return "", exit.Usage("the address at which containers reach this machine is unknown").Hinted("use --listen with an address that they can reach, such as 192.168.1.10:0")
}

// tryLevel says why jobs cannot have the isolation level; nil if they can, as far as that is known before one.
func (o *runFlags) tryLevel(ctx context.Context, place Place) error {
	folder, err := tempfolder.Make("dev")
	if err != nil {
		return err
	}
	defer tempfolder.Remove(folder)
	level := executor.Level(o.isolation)
	opened, err := place.Open(ctx, &config.Runner{Name: "dev", Executor: "docker"}, level, executor.Setup{Program: place.Program, State: folder})
	if err != nil {
		return exit.Coded(exit.System, "the isolation level %s cannot be used: %v", level, err)
	}
	return opened.Close()
}

// hostAddresses are addresses of this machine that containers on it reach: of a container engine's bridge, and the first private one that is not;
// empty where there is none.
func hostAddresses() (bridge, other string) {
	interfaces, _ := net.Interfaces()
	for _, in := range interfaces {
		if in.Flags&(net.FlagUp|net.FlagLoopback) != net.FlagUp {
			continue
		}
		_, err := os.Stat(filepath.Join("/sys/class/net", in.Name, "bridge"))
		addresses, _ := in.Addrs()
		for _, a := range addresses {
			ip, ok := a.(*net.IPNet)
			switch {
			case !ok || ip.IP.To4() == nil:
			case err == nil:
				bridge = cmp.Or(bridge, ip.IP.String())
			case ip.IP.IsPrivate():
				other = cmp.Or(other, ip.IP.String())
			}
		}
	}
	return bridge, other
}

// manager makes the runner. Its configuration is a file, like everybody's.
func (o *runFlags) manager(p *command.Program, place Place, s *server) (*manager.Manager, error) {
	path := filepath.Join(s.folder, "config.toml")
	if err := os.WriteFile(path, []byte(o.configuration(s)), 0o600); err != nil {
		return nil, err
	}
	c, err := config.Read(path)
	if err != nil {
		return nil, exit.Coded(exit.System, "%v", err)
	}
	own := slog.Handler(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if o.unable != nil {
		own = unlessUnable{own}
	}
	log := slog.New(own)
	systemID, err := config.SystemID(path)
	if err != nil {
		return nil, err
	}
	options := manager.Options{
		Config: c, SystemID: systemID, State: filepath.Join(s.folder, "runner"), Fresh: true, Open: place.Open, Program: place.Program, Version: p.Version, Revision: command.Revision(), Log: log,
		Keep: keep, Observer: observer{unable: o.unable},
	}
	if o.fleet > 0 {
		o.machines = newFleet()
		options.Provider, options.Connect = place.Machines(log, o.machines.observe)
	}
	return manager.New(options)
}

// configuration is a config.toml for the runner.
func (o *runFlags) configuration(s *server) string {
	text := fmt.Sprintf("concurrent = %d\n", o.concurrency)
	if o.sessions != "" {
		text += fmt.Sprintf("[session_server]\n  listen_address = %q\n", o.sessions)
	}
	text += "\n" + snippet(s, "shell")
	switch level := executor.Level(o.isolation); {
	case o.fleet > 0:
		text = strings.Replace(text, `executor = "shell"`, `executor = "instance"`, 1) + o.machinery()
	case level == executor.None:
	case level.Rank() >= executor.Container.Rank():
		text = strings.Replace(text, `executor = "shell"`, `executor = "docker"`, 1)
		text += fmt.Sprintf("  [runners.docker]\n    image = %q\n    pull_policy = [\"if-not-present\"]\n", o.image)
		fallthrough
	default:
		text += fmt.Sprintf("  [runners.isolation]\n    default = %q\n", o.isolation)
	}
	return text
}

// snippet is the entry of a config.toml for the GitLab.
func snippet(s *server, executor string) string {
	return fmt.Sprintf("[[runners]]\n  name = \"dev\"\n  url = %q\n  token = %q\n  executor = %q\n", s.url, s.RunnerToken(), executor)
}

// watch shows the jobs until the pipeline has ended, and returns how.
func (o *runFlags) watch(p *command.Program, s *server, id int, done <-chan error) error {
	v, _ := s.Pipeline(id)
	d := &display{out: o.machines.through(p.Stdout, colored(p)), color: colored(p), quiet: o.quiet, server: s.Server, seen: map[string]*seen{}}
	d.begin(v)
	for _, note := range v.Notes {
		p.Tell("note: " + note)
	}
	for {
		changed, logs := s.Changed(), s.LogsChanged()
		v, _ = s.Pipeline(id)
		d.show(v)
		if v.State.Over() {
			d.end(v)
			return result(v)
		}
		select {
		case <-changed:
		case <-logs:
		case err := <-done:
			return cmp.Or(err, errors.New("the runner has ended"))
		case err := <-o.unable:
			s.Cancel(id)
			return exit.Coded(exit.System, "%v", err)
		case <-time.After(time.Minute):
		}
	}
}

// observer hears that the runner cannot run jobs.
type observer struct {
	manager.Unobserved
	unable chan error // nil: nobody wants to know
}

// Unable implements manager.Observer.
func (o observer) Unable(_ manager.Entry, why error) {
	select {
	case o.unable <- why:
	default:
	}
}

// unlessUnable leaves out of a log what the command ends with.
type unlessUnable struct{ slog.Handler }

// Handle implements slog.Handler.
func (h unlessUnable) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == manager.UnableMessage {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h unlessUnable) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unlessUnable{h.Handler.WithAttrs(attrs)}
}

// result is the exit code of a pipeline.
func result(v fakegitlab.PipelineView) error {
	switch v.State {
	case fakegitlab.Success, fakegitlab.Skipped, fakegitlab.Manual:
		if v.State != fakegitlab.Manual {
			return nil
		}
	}
	for _, stage := range v.Stages {
		for _, j := range stage.Jobs {
			if j.State != fakegitlab.Failed || j.Allowed {
				continue
			}
			switch j.Reason {
			case "job_execution_timeout":
				return exit.Shown(exit.Timeout)
			case "runner_configuration_error", "ci_configuration":
				return exit.Shown(exit.Definition)
			case "runner_system_failure", "runner_external_dependency_failure", "unknown_failure", "runner_interrupted":
				return exit.Shown(exit.System)
			}
			return exit.Shown(exit.StepsFailed)
		}
	}
	if v.State == fakegitlab.Canceled {
		return exit.Shown(exit.StepsFailed)
	}
	return nil
}

// colored reports whether standard output takes colours.
func colored(p *command.Program) bool {
	if p.Getenv("NO_COLOR") != "" || p.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := p.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
