package dockermachine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/sdk/instancegroup"
)

// running is the state of a machine that runs, as docker-machine status says it.
const running = "Running"

const (
	// waitDelay is how long what a command has started may hold its output once it has ended.
	waitDelay = 5 * time.Second
	// askTime bounds how long docker-machine may take to answer a question.
	askTime = time.Minute
	// maxSaid bounds what is told of what it says when it fails, in bytes.
	maxSaid = 2000
	// maxDescribed bounds what it says of a machine, in bytes.
	maxDescribed = 1 << 20
)

// program is docker-machine's documented command line.
type program struct {
	options Options
	path    string
	store   string
}

// Lacks says that docker-machine is not on this machine; nil if it is.
func Lacks(o Options) error {
	_, err := find(o)
	return err
}

func find(o Options) (*program, error) {
	path, err := exec.LookPath(cmp.Or(o.Program, "docker-machine"))
	if err != nil {
		return nil, fmt.Errorf("docker-machine was not found: %w; install it, or write its path", err)
	}
	return &program{options: o, path: path, store: storePath(o)}, nil
}

// command is one command. The flags of drivers may hold secrets, and are told to nobody.
func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	// Reports of errors would send the flags to somebody else.
	cmd.Env = append(os.Environ(), "MACHINE_STORAGE_PATH="+p.store, "MACHINE_BUGSNAG_API_TOKEN=no-report")
	apart(cmd)
	return cmd
}

// ask runs a command to its end and returns what it says.
func (p *program) ask(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %s", limit))
	defer cancel()
	cmd := p.command(ctx, args...)
	var out, errs tail
	out.room, errs.room = maxDescribed, maxSaid
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", said(ctx, "docker-machine "+args[0], err, &errs)
	}
	return string(out.text), nil
}

// said is the error of a command, with the end of what it has said.
func said(ctx context.Context, what string, err error, errs *tail) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	text := strings.Join(strings.Fields(string(errs.text)), " ")
	if text == "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %s", what, err, text)
}

// list is the names of all machines in the store.
func (p *program) list(ctx context.Context) ([]string, error) {
	out, err := p.ask(ctx, askTime, "ls", "--quiet")
	return strings.Fields(out), err
}

// status is what a driver says of a machine.
func (p *program) status(ctx context.Context, name string) (string, error) {
	out, err := p.ask(ctx, askTime, "status", name)
	return strings.TrimSpace(out), err
}

// remove removes a machine. One that has no configuration in the store was not begun in the cloud, as docker-machine writes that down before: it is forgotten.
func (p *program) remove(ctx context.Context, name string) error {
	args := []string{"rm", "-y", name}
	if _, err := os.Stat(filepath.Join(p.store, "machines", name, "config.json")); errors.Is(err, fs.ErrNotExist) {
		args = []string{"rm", "--force", "-y", name}
	}
	_, err := p.ask(ctx, removeTime, args...)
	return err
}

// described is what docker-machine inspect says of a machine.
type described struct {
	Driver struct {
		IPAddress, SSHUser, SSHKeyPath string
		SSHPort                        int
	}
	key []byte
}

func (p *program) inspect(ctx context.Context, name string) (*described, error) {
	out, err := p.ask(ctx, askTime, "inspect", name)
	if err != nil {
		return nil, err
	}
	d := &described{}
	if err := json.Unmarshal([]byte(out), d); err != nil {
		return nil, fmt.Errorf("docker-machine inspect: %w", err)
	}
	if d.Driver.IPAddress == "" {
		return nil, fmt.Errorf("docker-machine inspect: the machine %s has no IPAddress", name)
	}
	key := cmp.Or(d.Driver.SSHKeyPath, filepath.Join(p.store, "machines", name, "id_rsa")) // where drivers put it that do not say
	if d.key, err = os.ReadFile(key); err != nil {
		return nil, fmt.Errorf("the key of the machine %s: %w", name, err)
	}
	return d, nil
}

// connector is how the machine is reached.
func (d *described) connector(settings instancegroup.Settings) instancegroup.ConnectorConfig {
	to := settings.ConnectorConfig
	to.OS, to.Protocol = cmp.Or(to.OS, "linux"), instancegroup.ProtocolSSH
	to.Username, to.Key, to.ProtocolPort, to.Password = cmp.Or(d.Driver.SSHUser, "root"), d.key, d.Driver.SSHPort, ""
	return to
}

// making is a machine that is being made.
type making struct {
	ctx  context.Context
	cmd  *exec.Cmd
	errs *tail
}

// create begins to make a machine.
func (p *program) create(ctx context.Context, name string) (*making, error) {
	args := []string{"create", "--driver", p.options.Driver}
	for _, option := range p.options.MachineOptions {
		args = append(args, "--"+strings.TrimLeft(option, "-"))
	}
	for _, option := range p.options.MachineOptionsWithName {
		args = append(args, "--"+strings.TrimLeft(strings.ReplaceAll(option, "%s", name), "-"))
	}
	m := &making{ctx: ctx, cmd: p.command(ctx, append(args, name)...), errs: &tail{room: maxSaid}}
	m.cmd.Stdout, m.cmd.Stderr = m.errs, m.errs
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *making) number() int { return m.cmd.Process.Pid }

func (m *making) wait() error {
	if err := m.cmd.Wait(); err != nil {
		return said(m.ctx, "docker-machine create", err, m.errs)
	}
	return nil
}

// end ends what makes a machine, where the process that has the number still is that.
func (p *program) end(ctx context.Context, number int, name string) {
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "args=", "-p", strconv.Itoa(number)).Output()
	if err == nil && bytes.HasSuffix(bytes.TrimSpace(out), []byte(" "+name)) {
		killGroup(number)
	}
}

// tail keeps the end of what is written.
type tail struct {
	text []byte
	room int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - t.room; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}
