package local

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/local"
)

// oneShell lets jobs that fail at the same time have their shells one after the other.
var oneShell sync.Mutex

// openShell lets a person look around in a job that failed.
func (a *app) openShell(ctx context.Context, job local.ShellJob) {
	oneShell.Lock()
	defer oneShell.Unlock()
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintf(a.Stderr, "a shell in the job %s, in %s; exit ends it\n", cleantext.Line(job.Name), cleantext.Line(job.Dir))
	shell := &executor.Shell{Dir: job.Dir, Env: job.Env, Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr}
	if in, ok := a.Stdin.(*os.File); ok && screen.IsTerminal(in) && screen.IsTerminal(a.Stdout) {
		if old, err := term.MakeRaw(int(in.Fd())); err == nil {
			defer term.Restore(int(in.Fd()), old)
			shell.Terminal = true
			var stop func()
			shell.Resize, stop = screen.WatchSize(a.Stdout)
			defer stop()
		}
	}
	if _, err := job.Environment.Shell(ctx, shell); err != nil {
		fmt.Fprintf(a.Stderr, "the shell ended: %v\r\n", err)
	}
}
