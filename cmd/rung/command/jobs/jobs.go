// Package jobs holds the commands that run jobs.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/rung/command/supplies"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/service"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/telemetry"
)

// reloadEvery is how often the configuration is looked at.
const reloadEvery = 3 * time.Second

// Commands makes the group.
func Commands(p *command.Program) []*cobra.Command {
	return []*cobra.Command{runCommand(p), execCommand(p)}
}

// Open returns what opens isolation levels for entries of the configuration.
func Open(p *command.Program) func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
	return open(p)
}

// FindProgram finds the step-runner beside this program, see executor.Setup.Program.
func FindProgram(system, arch string) (string, error) { return (&programs{}).find(system, arch) }

// shared are the flags of both commands.
type shared struct {
	state    string
	user     string // of jobs on this machine itself; empty is that of the configuration
	programs programs
	log      logFlags
}

// override changes a configuration to what flags say.
func (s *shared) override(c *config.Config) {
	c.RunAs(s.user)
	c.LogLevel, c.LogFormat = cmp.Or(s.log.level, c.LogLevel), cmp.Or(s.log.format, c.LogFormat)
}

func (s *shared) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.programs.file, "step-runner", "", "run jobs with this step-runner `FILE`, which is else the one beside rung")
}

func runCommand(p *command.Program) *cobra.Command {
	var s shared
	var workDir, serviceName string
	var keep time.Duration
	var syslog bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Ask GitLab for jobs and run them",
		Long: `run asks GitLab for jobs, for every runner of the configuration, and runs each in an environment of its own. The configuration is read again
when it changes, and on SIGHUP.

A manager that is killed leaves its jobs running: the next one with the same state folder takes them over, and no byte of their logs is lost.

  SIGQUIT          take no more jobs, and exit when those that run have ended
  SIGTERM, SIGINT  end the jobs: after_script runs, within shutdown_timeout; a
                   second signal ends them at once
  SIGUSR2          exit at once and leave the jobs to the next manager, which
                   may be a newer rung

Flags of gitlab-runner for its log are taken before and after the command: --debug, --log-level LEVEL and --log-format FORMAT come before log_level
and log_format of the configuration.`,
		Example: `  rung run
  rung run --config /etc/gitlab-runner/config.toml --state /var/lib/rung`,
		Args: command.Arguments(0, 0, "no arguments"),
	}
	file := place.Flag(p, cmd)
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.state, "state", "", "keep what runs, caches and builds in the folder `DIR` (default: /var/lib/rung, or ~/.local/state/rung)")
	f.StringVarP(&workDir, "working-directory", "d", "", "change to the folder `DIR` first, as gitlab-runner does")
	f.DurationVar(&keep, "keep", manager.DefaultKeep, "how long jobs go on without a manager")
	f.StringVar(&s.user, "user", "", "run jobs of executor shell as `USER`, before user in the configuration; for managers of root")
	f.StringVar(&serviceName, "service", "", "")
	f.BoolVar(&syslog, "syslog", false, "")
	for _, name := range []string{"service", "syslog"} { // of existing service units
		_ = f.MarkHidden(name)
	}
	f.Lookup("state").DefValue = ""
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if workDir != "" {
			if err := os.Chdir(workDir); err != nil {
				return exit.Usage("%v", err)
			}
		}
		if err := s.log.read(cmd); err != nil {
			return err
		}
		if syslog {
			p.Tell("note: --syslog has no effect: the log goes to standard error, which systemd and other managers of services keep")
		}
		nameUser()
		return service.Run(serviceName, func(stop <-chan struct{}) error { return run(cmd.Context(), p, file, &s, keep, stop) })
	}
	return cmd
}

// nameUser sets USER and LOGNAME to the user of this process where they are not set, as in a service of systemd: shell jobs have them from here.
func nameUser() {
	self, err := user.Current()
	if err != nil {
		return
	}
	for _, name := range []string{"USER", "LOGNAME"} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, self.Username)
		}
	}
}

// run is the command `run`. It ends as on SIGTERM when stop is closed.
func run(ctx context.Context, p *command.Program, file *place.File, s *shared, keep time.Duration, stop <-chan struct{}) error {
	incoming := listen()
	defer signal.Stop(incoming)
	told, forget := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer forget()
	path := file.Path()
	watcher, c, err := config.Watch(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return place.Missing(err, path)
	case errors.Is(err, fs.ErrPermission):
		return exit.Coded(exit.Denied, "%v", err).Hinted("run this as the user who owns the file")
	case err != nil:
		return exit.Coded(exit.Definition, "%v", err).Hinted("see `rung config lint`")
	}
	s.override(c)
	supplies.FindInstalled(c)
	if s.state == "" {
		if s.state, err = place.StateFolder(p); err != nil {
			return err
		}
	}
	served := newListening(p.Version)
	systemID, err := config.SystemID(path)
	level := new(slog.LevelVar)
	level.Set(logLevel(c))
	own := served.board.Count(logger(p.Stderr, c.LogFormat, level))
	sent, wrong := telemetry.New(telemetry.Options{Getenv: p.Getenv, Endpoint: c.OpenTelemetry.Endpoint, Version: p.Version, SystemID: systemID, Log: slog.New(own)})
	log := slog.New(sent.Handler(own))
	if wrong != nil {
		log.Error("telemetry is off: the OpenTelemetry settings are invalid", "error", wrong, "set_by", "a variable of OpenTelemetry, or [opentelemetry] of "+path)
	}
	defer sent.Close() // where that went wrong, too
	served.log = log
	slog.SetDefault(log) // where plugins write
	if err != nil {
		log.Warn("the system ID cannot be kept: the next start has another one", "error", err)
	}
	secret, err := config.StateSecret(path)
	if err != nil {
		log.Warn("cannot write .rung_state_secret: if you remove a runner from the configuration while rung is stopped, its running jobs are lost", "error", err)
	}
	o := manager.Options{
		Config: c, SystemID: systemID, State: s.state, Secret: secret, Open: open(p), Connect: supplies.Connect(s.programs.find), Program: s.programs.find, Version: p.Version, Revision: command.Revision(), Log: log, Keep: keep,
		Observer: served.board, Telemetry: sent,
	}
	defer served.close()
	all, err := share(told, p, c, &o, served, stop)
	switch {
	case errors.Is(err, errStopped):
		log.Info("rung ends", "reason", err)
		return nil
	case err != nil:
		return err
	case all != nil:
		defer func() {
			if err := all.Close(); err != nil {
				log.Warn("rung has not given the shared state back", "error", err)
			}
		}()
	}
	o.Provider = supplies.Open(p, o.Shared, o.Connect, log, nil)
	m, err := manager.New(o)
	var state *store.FolderError
	switch {
	case errors.Is(err, store.ErrInUse):
		return exit.Coded(exit.System, "%v", err).Hinted("stop it, or use another folder (--state)")
	case errors.As(err, &state):
		return exit.Coded(exit.System, "%v", err)
	case err != nil:
		return err
	}
	warned := warnings{}
	warned.tell(log, c)
	log.Info("rung begins", "version", p.Version, "config", path, "state", s.state, "system_id", systemID, "concurrent", c.Concurrent)
	served.begin(m, s.state, c.ListenAddress)
	watching, end := context.WithCancel(ctx)
	defer end()
	managed := &managed{Manager: m, flags: s, watcher: watcher, served: served, log: log, level: level, warned: warned, rotated: make(chan struct{}, 1)}
	managed.config.Store(c)
	go managed.rotate(watching, file.Manager())
	go obey(watching, managed, incoming)
	go func() {
		select {
		case <-stop:
			managed.stopAfter("the service is stopped")
		case <-watching.Done():
		}
	}()
	err = m.Run(ctx)
	switch {
	case errors.As(err, &state):
		return exit.Coded(exit.System, "%v", err)
	case err != nil && len(c.Runners) == 0:
		return exit.Coded(exit.Definition, "%s has no runners", path).Hinted("add one with `rung register`")
	case err != nil:
		return exit.Coded(exit.Definition, "%v", err).Hinted("see `rung config lint`")
	}
	log.Info("rung ends")
	return nil
}

// managed is a manager with what it is run by.
type managed struct {
	*manager.Manager
	flags   *shared
	watcher *config.Watcher
	served  *listening
	log     *slog.Logger
	level   *slog.LevelVar
	warned  warnings
	config  atomic.Pointer[config.Config]
	rotated chan struct{} // tokens were replaced: the configuration is to be read
}

// reload changes to the configuration if it has changed, or in any case.
func (m *managed) reload(ctx context.Context, always bool) {
	read := m.watcher.Changed
	if always {
		read = m.watcher.Reload
	}
	c, err := read()
	if err != nil {
		m.served.board.Loaded(err)
		m.log.Error("the changed configuration cannot be used; the previous one stays in force", "error", err)
		return
	}
	if c == nil {
		return
	}
	m.flags.override(c)
	supplies.FindInstalled(c)
	if err = m.Reload(ctx, c); errors.Is(err, manager.ErrEnded) { // it is told to stop, too
		return
	}
	m.served.board.Loaded(err)
	if err != nil {
		m.log.Error("the configuration cannot be used", "error", err)
		return
	}
	m.served.listen(c.ListenAddress)
	m.level.Set(logLevel(c))
	m.warned.tell(m.log, c)
	before := m.config.Swap(c)
	if before.LogFormat != c.LogFormat || before.OpenTelemetry != c.OpenTelemetry {
		m.log.Warn("changed settings take effect when rung is started again", "settings", "log_format, [opentelemetry]")
	}
	warnOfStorage(m.log, before, c)
	if always {
		m.Wake()
	}
	m.log.Info("the configuration has been read", "concurrent", c.Concurrent, "runners", len(c.Runners))
}

// warnings are those that have been told: what stays wrong is not told again each time that the configuration is read.
type warnings map[string]bool

// tell tells the log what `rung config lint` warns of in a configuration that is used now, and did not in those before.
func (w warnings) tell(log *slog.Logger, c *config.Config) {
	once := func(message, warning string) {
		if !w[warning] && log.Enabled(context.Background(), slog.LevelWarn) {
			w[warning] = true
			log.Warn(message, "warning", warning)
		}
	}
	found, err := config.Lint(c.Path)
	if err != nil {
		return // that is told where it is read
	}
	for _, p := range found.Problems {
		if p.Warning && p.Rule != config.RuleRoot {
			once("the configuration has a mistake or something that is not supported here", p.Error())
		}
	}
	for _, p := range config.AsRoot(c) { // --user is not in the file
		once("jobs run as root", p.Error())
	}
}

// logger writes the manager's own log.
func logger(to io.Writer, format string, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(to, o)
	}
	return slog.NewTextHandler(to, o)
}

// logLevel is that of the manager's own log.
func logLevel(c *config.Config) slog.Level {
	switch c.LogLevel {
	case "debug", "trace":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error", "fatal", "panic":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// stopAfter stops the jobs, and ends them when that takes longer than shutdown_timeout.
func (m *managed) stopAfter(reason string) {
	limit := m.config.Load().ShutdownTimeout
	m.log.Info("the jobs are stopped", "reason", reason, "at_most", limit)
	m.Stop(reason)
	time.AfterFunc(limit, func() {
		if len(m.Running()) > 0 {
			m.log.Warn("the jobs have not ended in time, and are killed", "shutdown_timeout", limit)
		} else {
			m.log.Warn("all jobs have ended, and this program has not, as when a plugin or a store does not answer; it is not waited for much longer", "shutdown_timeout", limit)
		}
		m.Kill(fmt.Sprintf("it has not ended within %s (shutdown_timeout of the runner)%s", limit, nothingMore))
	})
}

// nothingMore is what a killed job has to expect.
const nothingMore = "; nothing more of it runs, not even after_script"

// killNow ends the jobs now that were to stop already.
func (m *managed) killNow(sig os.Signal) {
	m.log.Warn("the jobs are killed", "signal", sig)
	m.Kill(fmt.Sprintf("the runner got a second signal to stop (%s)%s", sig, nothingMore))
}
