package none

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/process"
)

// shellGrace is how long a shell may take to end when its environment is closed.
const shellGrace = time.Second

// Shell runs a command with this program's environment, and not only what steps get of it: a person is at home here.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	if !v.enter() {
		return -1, errClosed
	}
	defer v.shells.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.ended, func() { cancel(errClosed) })()

	spec := process.Spec{
		Args: shell.Args, Dir: cmp.Or(shell.Dir, v.layout.Project), Env: v.environ(shell.Env), Grace: shellGrace,
		Input: shell.Stdin, Stdout: shell.Stdout, Stderr: shell.Stderr,
	}
	if len(spec.Args) == 0 {
		spec.Args = defaultShell()
	}
	if shell.Terminal {
		spec.Terminal = &process.Terminal{Input: shell.Stdin, Output: shell.Stdout, Resize: sizes(ctx, shell.Resize)}
	}
	result, err := process.Run(ctx, nil, spec)
	return result.ExitCode, err
}

var errClosed = errors.New("the job's environment was closed")

// enter counts a shell, unless the environment is being closed.
func (v *environment) enter() bool {
	v.entering.Lock()
	defer v.entering.Unlock()
	if v.ended.Err() != nil {
		return false
	}
	v.shells.Add(1)
	return true
}

// environ is this program's environment, the variables of the environment, and others over them, each name once.
func (v *environment) environ(others []string) []string {
	out := os.Environ()
	path := v.layout.Bin
	if old := os.Getenv("PATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	out = set(out, "PATH="+path)
	for name, value := range v.layout.Env {
		out = set(out, name+"="+value)
	}
	for _, pair := range others {
		out = set(out, pair)
	}
	return out
}

// set adds a NAME=value to an environment, in place of one with the same name.
func set(env []string, pair string) []string {
	name, _, _ := strings.Cut(pair, "=")
	for i, old := range env {
		oldName, _, _ := strings.Cut(old, "=")
		if oldName == name || runtime.GOOS == "windows" && strings.EqualFold(oldName, name) {
			env[i] = pair
			return env
		}
	}
	return append(env, pair)
}

func defaultShell() []string {
	if runtime.GOOS == "windows" {
		return []string{cmp.Or(os.Getenv("ComSpec"), "cmd.exe")}
	}
	return []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}
}

// sizes hands sizes on in the form of package process, until ctx ends.
func sizes(ctx context.Context, in <-chan executor.Size) <-chan process.Size {
	out := make(chan process.Size)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case size, open := <-in:
				if !open {
					return
				}
				select {
				case out <- process.Size(size):
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}
