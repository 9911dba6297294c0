package direct

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/executor/host"
)

// box is a sandbox as runsc knows it, by the folder with all that it has. runsc's state is in that folder too: ids, which runsc completes
// from their beginning, are then the sandbox's own.
type box struct {
	executor *Executor
	dir      string
}

// boxID is what each sandbox is called in its own folder of state.
const boxID = "job"

func (e *Executor) at(dir string) *box { return &box{e, dir} }

// beside is what has a folder in that of a sandbox, with a control group of its own.
func (b *box) beside(name string) *box { return b.executor.at(b.path(name)) }

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

// command is a command line of runsc. Options have to be the same for each command of a sandbox.
func (b *box) command(options []string, args ...string) []string {
	all := append([]string{
		b.executor.opts.Runsc, "--root", b.path("state"), "--log", b.path("log"), "--log-format", "json",
	}, options...)
	return append(all, args...)
}

// call runs a command of runsc to its end, and returns its output.
func (b *box) call(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	p, err := b.executor.host.Exec(ctx, &host.Command{Args: b.command(nil, args...), Stdout: &out, Stderr: &errs})
	if err != nil {
		return "", err
	}
	code, err := p.Wait()
	if err != nil {
		return "", fmt.Errorf("runsc %s: %w", args[0], err)
	}
	if code != 0 {
		if files, _ := filepath.Glob(filepath.Join(b.path("state"), "*.state")); len(files) == 0 { // runsc says in words alone that it has no such sandbox
			return "", &fs.PathError{Op: "runsc " + args[0], Path: b.dir, Err: fs.ErrNotExist}
		}
		said := strings.TrimSpace(errs.String())
		if i := strings.LastIndexByte(said, '\n'); i >= 0 {
			said = said[i+1:]
		}
		return "", fmt.Errorf("runsc %s ends with exit code %d: %s", args[0], code, said)
	}
	return out.String(), nil
}

// state is what runsc says of a sandbox.
type state struct {
	Status string `json:"status"` // created, running, paused, stopped
	PID    int    `json:"pid"`
}

// state asks runsc for the sandbox. The error is fs.ErrNotExist if there is none.
func (b *box) state(ctx context.Context) (state, error) {
	var s state
	if _, err := os.Stat(b.path("state")); err != nil {
		return s, err
	}
	text, err := b.call(ctx, "state", boxID)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("runsc describes the sandbox as %.100q: %w", text, err)
	}
	return s, nil
}

// remove kills all that runs in a sandbox, and removes it with its folder.
func (b *box) remove(ctx context.Context) error {
	services, _ := filepath.Glob(b.path(servicePrefix + "*"))
	for _, dir := range services {
		if err := b.executor.at(dir).remove(ctx); err != nil {
			return err
		}
	}
	if _, err := os.Stat(b.path("state")); err == nil {
		if _, err := b.call(ctx, "delete", "--force", boxID); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ending the sandbox in %s: %w", b.dir, err)
		}
	}
	releasePipes(b.dir)
	return errors.Join(b.beside(gatewayFolder).removeGroup(ctx), b.removeGroup(ctx), b.removeNetwork(ctx), b.executor.host.Files().RemoveAll(ctx, b.dir))
}

// process is a command in a sandbox, in the form of the OCI runtime specification.
type process struct {
	Terminal     bool          `json:"terminal,omitempty"`
	User         user          `json:"user"`
	Args         []string      `json:"args"`
	Env          []string      `json:"env"`
	Cwd          string        `json:"cwd"`
	Capabilities *capabilities `json:"capabilities,omitempty"`
	Rlimits      []rlimit      `json:"rlimits,omitempty"`
}

type user struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"additionalGids,omitempty"`
}

type capabilities struct {
	Bounding    []string `json:"bounding"`
	Effective   []string `json:"effective,omitempty"`
	Permitted   []string `json:"permitted,omitempty"`
	Inheritable []string `json:"inheritable,omitempty"`
}

type rlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

// execFile starts the command in the sandbox that a file describes.
func (b *box) execFile(ctx context.Context, file string, c *host.Command) (host.Process, error) {
	c.Args = b.command(nil, "exec", "--process", file, boxID)
	return b.executor.host.Exec(ctx, c)
}

// exec starts a command in the sandbox. How it is described goes through a pipe: its environment can hold secrets, which belong neither on a
// command line nor on a disk.
func (b *box) exec(ctx context.Context, p *process, c *host.Command) (host.Process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	pipe, err := newPipe(b.dir)
	if err != nil {
		return nil, err
	}
	running, err := b.execFile(ctx, pipe.path, c)
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = running.Wait()
	}()
	return running, pipe.send(text, ended)
}
