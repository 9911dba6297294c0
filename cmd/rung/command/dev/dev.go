// Package dev holds the commands to try a pipeline, and this program, without a GitLab.
package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/dev/fakegitlab"
	"github.com/rungci/rung/dev/gitserver"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/repository"
)

// Command makes the group. place makes what runs jobs, with a step-runner or "".
func Command(p *command.Program, place func(stepRunner string) Place) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try a pipeline with a GitLab of your own, on this machine",
		Long: `dev makes a folder with a .gitlab-ci.yml a project of a small GitLab, which is this program. It speaks the runner API that GitLab speaks, so that
any runner can take the jobs: this one, or gitlab-runner.

Nothing is written to the folder. Jobs get the work tree as it is, as a commit that only the small GitLab has.`,
		Example: `  rung dev run
  rung dev gitlab --runner`,
	}
	command.Group(cmd)
	cmd.AddCommand(runCommand(p, place), gitlabCommand(p, place))
	return cmd
}

// flags are those of both commands.
type flags struct {
	project project.Flags
	file    string
	listen  string
	secrets []string
	delayed bool
	faults  string
	seed    uint64
}

func (o *flags) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	o.project.Declare(f)
	for _, name := range []string{"project-dir", "lock-file", "locked", "bundle", "event-file"} {
		_ = f.MarkHidden(name)
	}
	f.StringVar(&o.file, "file", "", "read the pipeline from `FILE` instead of .gitlab-ci.yml")
	f.StringArrayVar(&o.secrets, "secret", nil, "give the secret `NAME=VALUE`; NAME=env:VARIABLE and NAME=@FILE keep it off the command line")
	f.BoolVar(&o.delayed, "wait-delayed", false, "wait for delayed jobs, which otherwise start at once")
	f.StringVar(&o.faults, "fault", "", "let the GitLab fail in these `WAYS`, separated by commas: "+strings.Join(fakegitlab.FaultNames(), ", "))
	f.Uint64Var(&o.seed, "seed", 0, "make the same faults again; the seed of a run is printed")
	project.Complete(cmd)
}

// isFolder reports whether an argument names the folder of a project, and not a job, whose name may have a slash.
func isFolder(arg string) bool {
	path := filepath.ToSlash(arg)
	if path == "." || path == ".." || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") || filepath.IsAbs(arg) {
		return true
	}
	_, err := os.Lstat(filepath.Join(arg, gitlab.DefaultFile))
	return err == nil
}

// server is a GitLab that listens.
type server struct {
	*fakegitlab.Server
	url    string
	folder string
	web    *http.Server
	ended  chan struct{}
}

// start starts a GitLab for a folder. ctx bounds its work.
func (o *flags) start(ctx context.Context, p *command.Program, folder, address string) (*server, error) {
	o.project.ProjectDir = folder
	options, err := o.project.Options(p, o.file)
	if err != nil {
		return nil, err
	}
	found, err := repository.Open(ctx, folder, p.Env)
	if err != nil {
		return nil, exit.Coded(exit.NotFound, "%v", err)
	}
	secrets, err := values.ReadSecrets(o.secrets, p.LookupEnv)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, exit.Coded(exit.System, "%v", err).Hinted("choose another address with --listen, such as 127.0.0.1:0")
	}
	s := &server{url: "http://" + listener.Addr().String(), ended: make(chan struct{})}
	if s.folder, err = tempfolder.Make("dev"); err != nil {
		_ = listener.Close()
		return nil, err
	}
	faults, err := fakegitlab.ParseFaults(o.faults)
	if err != nil {
		_ = listener.Close()
		tempfolder.Remove(s.folder)
		return nil, exit.Usage("--fault: %v", err)
	}
	s.Server, err = fakegitlab.New(ctx, fakegitlab.Options{
		Repository: found, Folder: s.folder, Env: p.Env, URL: s.url, Secrets: secrets, WaitDelayed: o.delayed, Migrations: faults.Migrations(),
		Open: func(ctx context.Context, pipeline int) (*gitlab.Project, error) {
			options := options
			options.Event.PipelineID = pipeline
			return gitlab.Open(ctx, options)
		},
	})
	if err != nil {
		_ = listener.Close()
		tempfolder.Remove(s.folder)
		if errors.Is(err, gitserver.ErrNoGit) {
			return nil, exit.Coded(exit.System, "%v", err).Hinted("install git")
		}
		return nil, err
	}
	if len(faults) > 0 {
		seed := s.Break(faults, o.seed)
		p.Tell(fmt.Sprintf("the GitLab fails on purpose: --fault %s --seed %d", o.faults, seed))
	}
	s.web = &http.Server{Handler: s.Server, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.web.Serve(listener) }()
	go func() { defer close(s.ended); s.Run(ctx) }()
	return s, nil
}

// close ends the server, whose context has ended, and removes what it made.
func (s *server) close() {
	_ = s.web.Close()
	<-s.ended
	tempfolder.Remove(s.folder)
}
