package none

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
)

// Shell runs a command with the environment of the host's user, not only with what steps get of it: it is for a person.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	if err := v.enter(); err != nil {
		return -1, err
	}
	defer v.shells.Done()
	ctx, end := v.Within(ctx)
	defer end()

	command := &host.Command{
		Args: shell.Args, Dir: cmp.Or(shell.Dir, v.layout.Project), Env: v.environ(shell),
		Stdin: shell.Stdin, Stdout: shell.Stdout, Stderr: shell.Stderr,
	}
	if len(command.Args) == 0 {
		command.Args = v.defaultShell()
	}
	if shell.Terminal {
		command.Stderr = nil // everything goes to Stdout
		command.Terminal = &host.Terminal{Name: os.Getenv("TERM")}
		if shell.Resize != nil {
			select {
			case size := <-shell.Resize:
				command.Terminal.Size = host.Size(size)
			case <-ctx.Done():
				return -1, context.Cause(ctx)
			}
		}
	}
	v.runner.into(command)
	p, err := v.executor.host.Exec(ctx, command)
	if err != nil {
		return -1, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go resize(p, shell.Resize, ended)
	code, err := p.Wait()
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	return code, err
}

// enter counts a shell, unless the environment has ended.
func (v *environment) enter() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := v.Err()
	if err == nil {
		v.people = true
		v.shells.Add(1)
	}
	return err
}

// cleanNames are the variables of this program's environment that a shell has which is for somebody else. An item that ends in _ is a prefix.
var cleanNames = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_", "TZ", "TMPDIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// clean is the part of an environment that somebody else may see.
func clean(env []string) []string {
	return slices.DeleteFunc(env, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return !slices.ContainsFunc(cleanNames, func(known string) bool {
			return strings.EqualFold(name, known) || strings.HasSuffix(known, "_") && strings.HasPrefix(name, known)
		})
	})
}

// environ is what a shell has beyond the environment of the host's user. On this machine that is this program's.
func (v *environment) environ(shell *executor.Shell) []string {
	var out []string
	path := os.Getenv("PATH")
	if v.executor.host.Name() == local.Name {
		out = os.Environ()
		if shell.Clean {
			out = clean(out)
		}
	} else {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	out = set(out, "PATH="+v.layout.Bin+v.executor.host.Path().ListSeparator()+path)
	for name, value := range v.layout.Env {
		out = set(out, name+"="+value)
	}
	for _, pair := range shell.Env {
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

func (v *environment) defaultShell() []string {
	switch {
	case v.executor.host.Name() != local.Name:
		return []string{"/bin/sh", "-l"}
	case runtime.GOOS == "windows":
		return []string{cmp.Or(os.Getenv("ComSpec"), "cmd.exe")}
	}
	return []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}
}

// resize hands sizes on to a terminal until it has ended.
func resize(p host.Process, sizes <-chan executor.Size, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case size, open := <-sizes:
			if !open {
				return
			}
			_ = p.Resize(host.Size(size)) // a terminal of another size is one, too
		}
	}
}
