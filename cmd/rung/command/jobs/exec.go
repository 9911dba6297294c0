package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/containers"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/payload"
)

func execCommand(p *command.Program) *cobra.Command {
	var s shared
	var name, level string
	cmd := &cobra.Command{
		Use:   "exec PAYLOAD",
		Short: "Run one job from the text that GitLab sends to runners",
		Long: `exec runs the job of a payload: the JSON text that GitLab answers a request for a job with. No GitLab is needed: states are told to nobody, the
log goes to standard output, and what the job uploads is counted and thrown away.

Exit codes: 0 success · 1 the job's script failed · 2 usage · 3 invalid payload or configuration · 5 internal error · 124 timeout · 130 interrupted`,
		Example: `  rung exec payload.json
  rung exec payload.json --isolation container --runner docker-1`,
		Args: command.Arguments(1, 1, "a payload"),
	}
	file := place.Flag(p, cmd)
	s.flags(cmd)
	cmd.Flags().StringVar(&name, "runner", "", "with what the configuration says of the runner `NAME`")
	cmd.Flags().StringVar(&level, "isolation", "", "run it at the isolation level `LEVEL` (default: the runner's, or none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := &config.Runner{Executor: "shell", Name: "rung exec"}
		if name != "" {
			c, err := config.Read(file.Path())
			if err != nil {
				return exit.Coded(exit.Definition, "%v", err)
			}
			chosen, err := (&place.Choice{Name: name}).Of(c.Runners, file.Path())
			if err != nil {
				return exit.Coded(exit.NotFound, "%s has no entry with the name %q (--runner)", file.Path(), name).Hinted("see `rung list`")
			}
			r = chosen[0]
		}
		levels, err := r.Levels()
		if err != nil {
			return exit.Coded(exit.Definition, "%v", err)
		}
		if level == "" {
			level = string(levels.Default)
		}
		_, text, err := p.Read(args[0])
		if err != nil {
			return err
		}
		var from gitlab.Job
		if err := json.Unmarshal(text, &from); err != nil {
			return exit.Coded(exit.Definition, "%s is not the payload of a job: %v", args[0], err)
		}
		if len(from.Steps) == 0 {
			return exit.Coded(exit.Definition, "%s is not the payload of a job: it has no steps", args[0])
		}
		return execute(cmd.Context(), p, r, executor.Level(level), &from, &s)
	}
	return cmd
}

// execute runs one job.
func execute(ctx context.Context, p *command.Program, r *config.Runner, of executor.Level, from *gitlab.Job, s *shared) error {
	ctx, kill, end := signals.Handle(ctx, nil)
	defer end()
	folder, err := os.MkdirTemp("", "rung-exec-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	level, err := open(p)(ctx, r, of, executor.Setup{Program: s.programs.find, State: filepath.Join(folder, "environments")})
	if err != nil {
		return exit.Coded(exit.System, "%v", err)
	}
	defer level.Close()
	theirs, api, stop, err := pretend(ctx, from)
	if err != nil {
		return err
	}
	defer stop()
	self := payload.Runner{Name: r.Name, Version: p.Version, Revision: command.Revision(), API: api.URL(), Environment: r.Environment, Shell: r.Shell}
	if of := r.Images(); of != nil {
		self.Image, self.PullPolicies = of.Image, of.PullPolicy
	}
	ended := job.Run(ctx, job.KillOn(kill), from, self, job.Options{
		API: api, Level: level, Folder: filepath.Join(folder, "job"), Caches: filepath.Join(folder, "caches"), DriverBuilds: r.BuildsDir, Title: "rung " + p.Version, Grace: 10 * time.Second,
		Bounds: func(what *executor.Job) error {
			if !level.Capabilities().Image {
				what.Root = filepath.Join(folder, "builds")
				return os.Mkdir(what.Root, 0o755)
			}
			containers.Bound(r, containers.Slot{}, what) // the volumes of the runner's jobs are not touched
			return nil
		},
		Note:   func(err error) { p.Tell(err.Error()) },
		Output: func(log []byte) { _, _ = p.Stdout.Write(log) },
	})
	if n := len(theirs.Result().Artifacts); n > 0 {
		p.Tell(fmt.Sprintf("uploads of the job, thrown away: %d", n))
	}
	if ended.Err != nil {
		return exit.Shown(exit.OfRun("failure", ended.Err))
	}
	return nil
}

// pretend is a GitLab that has handed the job out.
func pretend(ctx context.Context, from *gitlab.Job) (*gitlabtest.Job, *gitlab.Client, func(), error) {
	server := gitlabtest.New(gitlabtest.Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	stop := func() { _ = web.Close() }
	api, err := gitlab.New(gitlab.Options{
		URL:  "http://" + listener.Addr().String(),
		Info: gitlab.Info{Features: gitlab.Features{Refspecs: true, TwoPhaseJobCommit: true, CancelGracefully: true}},
	})
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	theirs := server.Enqueue(*from)
	answer, err := api.RequestJob(ctx, gitlab.Ask{Runner: gitlab.Runner{Token: server.NewRunner(), SystemID: "r_execexecexec"}})
	if err == nil && answer.Job == nil {
		err = fmt.Errorf("the job was not handed out")
	}
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	from.ID, from.Token = answer.Job.ID, answer.Job.Token
	return theirs, api, stop, nil
}
