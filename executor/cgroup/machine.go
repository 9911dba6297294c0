package cgroup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/cgroup"
)

// machine handles the control groups of a machine.
type machine interface {
	// command makes a command one that begins in a group.
	command(group *cgroup.Group, c *host.Command)
	create(ctx context.Context, slot, name string) error
	limit(ctx context.Context, group *cgroup.Group, l cgroup.Limits, project string) error
	usage(group *cgroup.Group) cgroup.Usage
	remove(ctx context.Context, group *cgroup.Group) error
}

// here is this machine.
type here struct{ tree *cgroup.Tree }

func (h here) command(group *cgroup.Group, c *host.Command) {
	if dir, is := group.Folder(); is {
		c.Group = dir
		return
	}
	c.Args = group.Launch(c.Args)
}

func (h here) create(_ context.Context, slot, name string) error {
	group, err := h.tree.Group(slot, name)
	if err != nil {
		return err
	}
	return group.Make()
}

func (h here) limit(_ context.Context, group *cgroup.Group, l cgroup.Limits, project string) error {
	return group.LimitWith(l, project)
}

func (h here) usage(group *cgroup.Group) cgroup.Usage                { return group.Usage() }
func (h here) remove(ctx context.Context, group *cgroup.Group) error { return group.Remove(ctx) }

// there is another machine, on which a copy of this program does the work: `step-runner host control-group`.
type there struct {
	host    host.Host
	program string
	tree    *cgroup.Tree
}

const (
	// usageTime bounds how long a machine may take to say what a group has used.
	usageTime = 5 * time.Second
	// maxAnswer bounds an answer, and what a program says that has none, in bytes.
	maxAnswer = 64 << 10
)

// openThere finds out what another machine's control groups can do. The error says in one sentence what it lacks.
func openThere(ctx context.Context, setup executor.Setup) (*there, error) {
	platform := setup.Host.Platform()
	if platform.OS != "linux" {
		return nil, fmt.Errorf("isolation level %q needs Linux, and %s has %s; use %q there", executor.CGroup, setup.Host.Name(), platform.OS, executor.None)
	}
	if setup.Program == nil {
		setup.Program = executor.ThisProgram
	}
	file, err := setup.Program(platform.OS, platform.Arch)
	if err != nil {
		return nil, fmt.Errorf("finding a step-runner for the host %s: %w", setup.Host.Name(), err)
	}
	t := &there{host: setup.Host}
	if t.program, err = t.host.Put(ctx, file); err != nil {
		return nil, fmt.Errorf("copying the step-runner to the host %s: %w", t.host.Name(), err)
	}
	answer, err := t.ask(ctx, cgroup.Request{Open: true})
	if err == nil && answer.Tree == nil {
		err = errors.New("its step-runner says nothing of control groups")
	}
	if err != nil {
		return nil, fmt.Errorf("on %s: %w", t.host.Name(), err)
	}
	t.tree = answer.Tree
	return t, nil
}

func (t *there) ask(ctx context.Context, r cgroup.Request) (answer cgroup.Answer, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	var out, errs bounded
	p, err := t.host.Exec(ctx, &host.Command{Args: []string{t.program, "host", cgroup.Operation}, Stdin: bytes.NewReader(text), Stdout: &out, Stderr: &errs})
	if err != nil {
		return answer, err
	}
	code, err := p.Wait()
	if err != nil {
		return answer, err
	}
	if code != 0 || json.Unmarshal(out.text, &answer) != nil {
		return answer, fmt.Errorf("the step-runner there ends with exit code %d: %s", code, strings.TrimSpace(string(append(out.text, errs.text...))))
	}
	if answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return answer, err
}

// command begins in a shell that enters the group: only this machine's processes are started straight into one.
func (t *there) command(group *cgroup.Group, c *host.Command) { c.Args = group.Launch(c.Args) }

func (t *there) create(ctx context.Context, slot, name string) error {
	_, err := t.ask(ctx, cgroup.Request{Make: &cgroup.MakeRequest{Tree: t.tree, Slot: slot, Name: name}})
	return err
}

func (t *there) limit(ctx context.Context, group *cgroup.Group, l cgroup.Limits, project string) error {
	if l == (cgroup.Limits{}) {
		return nil
	}
	_, err := t.ask(ctx, cgroup.Request{Limit: &cgroup.LimitRequest{Group: group, Limits: l, Project: project}})
	return err
}

func (t *there) usage(group *cgroup.Group) cgroup.Usage {
	ctx, cancel := context.WithTimeout(context.Background(), usageTime)
	defer cancel()
	answer, _ := t.ask(ctx, cgroup.Request{Usage: group}) // a machine that does not answer says nothing
	return answer.Usage
}

func (t *there) remove(ctx context.Context, group *cgroup.Group) error {
	_, err := t.ask(ctx, cgroup.Request{Remove: group})
	return err
}

// bounded keeps the beginning of what is written.
type bounded struct{ text []byte }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), maxAnswer-len(b.text))]...)
	return len(p), nil
}

var _ io.Writer = (*bounded)(nil)
