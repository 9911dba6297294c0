package job

import (
	"context"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/terminal"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
)

// admit lets people into the environment of the job. A shell has the variables that a script has.
func (j *job) admit(compiled *compile.Compiled) {
	env := make([]string, 0, len(compiled.Shell))
	for _, v := range compiled.Shell {
		env = append(env, v.Name+"="+v.Value)
	}
	j.o.Terminal.Open(j.GitLab().ID, func(ctx context.Context, shell *executor.Shell) (int, error) {
		shell.Dir, shell.Env, shell.Clean = j.env.Layout().Project, env, true
		return j.env.Shell(ctx, shell)
	})
}

// attend waits for who is still in the environment of a job that has ended, as long as the job's time lasts.
func attend(ctx context.Context, s *terminal.Session, deadline time.Time) {
	defer s.Close()
	ctx, end := context.WithDeadline(ctx, deadline)
	defer end()
	s.Wait(ctx)
}
