package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/rung/command/supplies"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/steps/event"
)

func execCommand(p *command.Program) *cobra.Command {
	var s shared
	var name, level string
	cmd := &cobra.Command{
		Use:   "exec PAYLOAD",
		Short: "Run one job from the text that GitLab sends to runners",
		Long: `exec runs the job of a payload: the JSON text that GitLab answers a request for a job with. No GitLab is needed: states are told to nobody, the
log goes to standard output, and what the job uploads is counted and thrown away.

With --runner, the job runs as one that this runner has got from GitLab: with its user, policy, limits, scripts, services and so on. But it finds nothing of earlier
jobs and leaves nothing for later ones: caches, kept volumes and project folders are its own. A trace that is kept is in the folder "tried" of the others. Keys about
asking for jobs have no effect (concurrent, limit, check_interval and the like), and of others the command says so.

Exit codes: 0 success · 1 the job's script failed · 2 usage · 3 invalid payload or configuration · 4 the runner's policy does not allow the job
· 5 internal error · 6 no such runner · 124 timeout · 130 interrupted`,
		Example: `  rung exec payload.json
  rung exec payload.json --isolation container --runner docker-1`,
		Args: command.Arguments(1, 1, "a payload"),
	}
	file := place.Flag(p, cmd)
	s.flags(cmd)
	cmd.Flags().StringVar(&name, "runner", "", "with what the configuration says of the runner `NAME`")
	cmd.Flags().StringVar(&level, "isolation", "", "run it at the isolation level `LEVEL` (default: the runner's, or none)")
	command.Complete(cmd, "isolation", levels.Names()...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if level != "" {
			if err := command.OneOf("--isolation", level, levels.Names()...); err != nil {
				return err
			}
		}
		c, err := alone(p, file, name)
		if err != nil {
			return err
		}
		if err := here(p, c, executor.Level(level)); err != nil {
			return err
		}
		from, err := readPayload(p, args[0])
		if err != nil {
			return err
		}
		if level != "" { // who says so here is heard before the job
			from.Variables = slices.DeleteFunc(from.Variables, func(v gitlab.Variable) bool { return v.Key == manager.IsolationVariable })
		}
		return execute(cmd.Context(), p, c, from, &s)
	}
	return cmd
}

// readPayload reads a job.
func readPayload(p *command.Program, name string) (*gitlab.Job, error) {
	_, text, err := p.Read(name)
	if err != nil {
		return nil, err
	}
	var from gitlab.Job
	wrong := ""
	switch err := json.Unmarshal(text, &from); {
	case err != nil:
		wrong = err.Error()
	case from.ID < 0:
		wrong = fmt.Sprintf("its id is %d, and those of jobs are above 0", from.ID)
	case len(from.Steps) == 0 && from.Run == "":
		wrong = "it has no steps and no run"
	}
	if wrong != "" {
		return nil, exit.Coded(exit.Definition, "%s is not the payload of a job: %s", name, wrong)
	}
	return &from, nil
}

// nobodys is the configuration of a job of no runner.
const nobodys = `[[runners]]
  name = "rung exec"
  url = "http://127.0.0.1"
  token = "rung-exec"
  executor = "shell"
`

// alone is a configuration with one entry: that of the runner with a name, or nobody's without one.
func alone(p *command.Program, file *place.File, name string) (*config.Config, error) {
	if name == "" {
		c := config.Check("config.toml", []byte(nobodys), p.Getenv).Config
		c.Runners[0].OutputLimit = 0
		return c, nil
	}
	c, err := config.Read(file.Path())
	if err != nil {
		return nil, exit.Coded(exit.Definition, "%v", err)
	}
	chosen, err := (&place.Choice{Name: name}).Of(c.Runners, file.Path())
	if err != nil {
		return nil, exit.Coded(exit.NotFound, "%s has no entry with the name %q (--runner)", file.Path(), name).Hinted("see `rung list`")
	}
	r := *chosen[0]
	r.Token = cmp.Or(r.Token, "rung-exec")
	c.Runners = []config.Runner{r}
	supplies.FindInstalled(c)
	return c, nil
}

// here changes the only entry to one whose jobs run on this machine, at a level that may be asked for, and says which of its keys have no effect there.
func here(p *command.Program, c *config.Config, asked executor.Level) error {
	r := &c.Runners[0]
	its, err := r.Levels()
	if err != nil {
		return exit.Coded(exit.Definition, "%v", err)
	}
	for _, text := range withoutEffect(c, r) {
		p.Tell("note: without effect in rung exec: " + text)
	}
	if r.Provider != nil {
		if asked == "" && its.Default.Rank() != executor.Container.Rank() && its.Default.Rank() != executor.Sandbox.Rank() {
			return exit.Coded(exit.Definition, "jobs of the runner %q have machines of their own, which rung exec does not make", r.Name).
				Hinted("use --isolation to choose a level on this machine")
		}
		c.Runners[0] = *r.OnThisMachine()
		c.RunAs(c.User)
	}
	if asked == "" {
		return nil
	}
	if least := executor.Level(r.Isolation.Minimum); least != "" && asked.Rank() < least.Rank() {
		return exit.Coded(exit.Definition, "isolation level %q (--isolation) is weaker than %q, the minimum of the runner %q (runners.isolation.minimum)", asked, least, r.Name)
	}
	r.Isolation.Default, r.Isolation.Allowed = string(asked), nil
	return nil
}

// withoutEffect are the keys of an entry, and those above it, that would change what its jobs see and cannot here, each with the reason. Those about asking for jobs
// are not among them.
func withoutEffect(c *config.Config, r *config.Runner) (all []string) {
	for _, k := range []struct {
		set      bool
		key, why string
	}{
		{c.SessionServer.ListenAddress != "", "session_server", "the job has no terminal"},
		{c.OpenTelemetry.Endpoint != "", "opentelemetry", "nothing is sent"},
		{c.Disk != config.Disk{}, "disk", "nothing is removed for the job"},
		{r.Provider != nil, "runners.provider, runners.autoscaler, runners.machine and runners.fleet", "the job runs on this machine"},
		{r.Cache.Type != "", "runners.cache", "the caches of the job are its own, and are thrown away"},
		{r.CacheDir != "" && r.Executor != "custom", "runners.cache_dir", "the caches of the job are its own, and are thrown away"},
		{r.Traces.Dir != "" && !filepath.IsAbs(r.Traces.Dir), "runners.traces.dir", "it is below the state folder of `rung run`; an absolute one has an effect"},
	} {
		if k.set {
			all = append(all, k.key+": "+k.why)
		}
	}
	return all
}

// execute runs one job.
func execute(ctx context.Context, p *command.Program, c *config.Config, from *gitlab.Job, s *shared) error {
	ctx, kill, end := signals.Handle(ctx, nil)
	defer end()
	folder, err := tempfolder.Make("exec")
	if err != nil {
		return err
	}
	defer tempfolder.Remove(folder)
	theirs, url, stop, err := pretend(ctx, from)
	if err != nil {
		return err
	}
	defer stop()
	seen := &spectator{p: p}
	log := slog.New(told{p})
	slog.SetDefault(log) // where plugins write
	m, err := manager.New(manager.Options{
		Config: c, SystemID: systemID, State: filepath.Join(folder, "state"), Fresh: true, Open: open(p), Program: s.programs.find, Version: p.Version, Revision: command.Revision(),
		Log: log, Observer: seen, StandIn: url,
	})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-kill:
			m.Kill("interrupted again")
		case <-done:
		}
	}()
	ended, err := manager.Try(ctx, m, from)
	if err != nil {
		return notBegun(ctx, err)
	}
	if n := len(theirs.Artifacts()); n > 0 {
		p.Tell(fmt.Sprintf("uploads of the job, thrown away: %d", n))
	}
	if seen.trace != "" && filepath.IsAbs(c.Runners[0].Traces.Dir) {
		p.Tell("the trace of the job: " + seen.trace)
	}
	if ended.Err != nil {
		return exit.Shown(exit.OfRun(event.Failure, ended.Err))
	}
	return nil
}

// notBegun gives the error of a job that could not begin its exit code.
func notBegun(ctx context.Context, err error) error {
	var known *event.Error
	switch {
	case ctx.Err() != nil:
		return exit.Shown(exit.Interrupted)
	case errors.As(err, &known):
		return exit.Coded(exit.OfRun(event.Failure, known), "%v", err)
	}
	return exit.Coded(exit.System, "%v", err)
}

// spectator shows the log of a job.
type spectator struct {
	manager.Unobserved
	p     *command.Program
	trace string // where it is; empty is nowhere
}

// Wrote implements manager.Observer.
func (s *spectator) Wrote(_ manager.Running, log []byte) { _, _ = s.p.Stdout.Write(log) }

// Ended implements manager.Observer.
func (s *spectator) Ended(_ manager.Running, end manager.End) { s.trace = end.Trace }

// told tells people what a manager has to say beside a job, as the lines of a command.
type told struct{ p *command.Program }

// Enabled implements slog.Handler.
func (told) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (t told) Handle(_ context.Context, r slog.Record) error {
	parts := []string{r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			parts = append(parts, a.Value.String())
		}
		return true
	})
	t.p.Tell(strings.Join(parts, ": "))
	return nil
}

// WithAttrs implements slog.Handler. There is one job, so that nobody asks which.
func (t told) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup implements slog.Handler.
func (t told) WithGroup(string) slog.Handler { return t }

// systemID is that of a runner that has no GitLab.
const systemID = "r_execexecexec"

// pretend is a GitLab that has handed the job out, and its address.
func pretend(ctx context.Context, from *gitlab.Job) (*gitlabtest.Job, string, func(), error) {
	server := gitlabtest.New(gitlabtest.Options{KeepLog: 1, MaxLog: math.MaxInt64}) // the log is on standard output
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	stop := func() { _ = web.Close() }
	url := "http://" + listener.Addr().String()
	api, err := gitlab.New(gitlab.Options{
		URL:  url,
		Info: gitlab.Info{Features: gitlab.Features{Refspecs: true, TwoPhaseJobCommit: true, CancelGracefully: true}},
	})
	if err != nil {
		stop()
		return nil, "", nil, err
	}
	theirs := server.Enqueue(*from)
	answer, err := api.RequestJob(ctx, gitlab.Ask{Runner: gitlab.Runner{Token: server.NewRunner(), SystemID: systemID}})
	if err == nil && answer.Job == nil {
		err = fmt.Errorf("the job was not handed out")
	}
	if err != nil {
		stop()
		return nil, "", nil, err
	}
	from.ID, from.Token = answer.Job.ID, answer.Job.Token
	return theirs, url, stop, nil
}
