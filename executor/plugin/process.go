package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/internal/tempfolder"
)

const (
	// startTime bounds how long a plugin may take until it can be called.
	startTime = 20 * time.Second
	// exitTime is how long a plugin whose connection broke is waited for, to see that it has ended.
	exitTime = 2 * time.Second
)

// limits are how long a plugin may say nothing: in a call, in one that does nothing, and when one that seems to hang is asked whether it does.
var limits = struct{ silence, prompt, probe time.Duration }{wire.Silence, wire.Prompt, 5 * time.Second}

// process is one process of a plugin, open for jobs.
type process struct {
	kind   kind
	name   string
	client *goplugin.Client
	conn   *grpc.ClientConn
	rpc    executorv1.ExecutorClient // of an executor
	// describe asks whether it is there, and said is the error that it returned.
	describe func(ctx context.Context) error
	said     func(err error) (out error, ok bool)

	described *executorv1.DescribeResponse
	can       executor.Capabilities
	silence   time.Duration // of Prepare

	// Life ends with the process, with a *Failure within a *executor.Gone.
	*executor.Life
	cmd     *exec.Cmd
	sockets string // the folder of its sockets, which it may leave behind
	exit    sync.Once
	exited  chan struct{}
}

// passed are the variables that every plugin gets of this program's.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "SystemRoot", "SYSTEMROOT", "USERPROFILE", "ComSpec", "PATHEXT"}

// started starts a process of the plugin from a file. It must be opened before it is used.
func (c *Config) started(ctx context.Context, file string) (*process, error) {
	cmd := exec.Command(file, c.Args...)
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	tls, certificate, err := mutualTLS()
	if err != nil {
		return nil, err
	}
	sockets, err := tempfolder.Make("sockets")
	if err != nil {
		return nil, err
	}
	cmd.Env = append(append(cmd.Env, c.Env...), certificateVariable+"="+certificate, goplugin.EnvUnixSocketDir+"="+sockets)
	p := &process{kind: c.kind(), name: c.Name, cmd: cmd, sockets: sockets, exited: make(chan struct{}), silence: limits.silence, Life: executor.NewLife()}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{wire.Version: {wire.Name: &dialer{}}},
		Cmd:              cmd, SkipHostEnv: true, TLSConfig: tls, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout: startTime, Logger: newLogger(c.Name, c.Log), GRPCDialOptions: wire.DialOptions(),
	})
	connected := make(chan error, 1)
	go func() { connected <- p.connect() }()
	select {
	case err = <-connected:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		go p.kill()
		return nil, &Failure{Kind: c.kind(), Plugin: c.Name, What: "does not start", Err: plainly(err)}
	}
	go p.wait()
	return p, nil
}

// plainly leaves out of go-plugin's errors what is for somebody who writes a program with it.
func plainly(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(strings.TrimSpace(text))
}

func (p *process) connect() error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(wire.Name)
	if err != nil {
		return err
	}
	p.conn = raw.(*grpc.ClientConn)
	p.rpc = executorv1.NewExecutorClient(p.conn)
	p.said = wire.FromStatus
	p.describe = func(ctx context.Context) error {
		_, err := p.rpc.Describe(ctx, &executorv1.DescribeRequest{})
		return err
	}
	return nil
}

// dialer makes the client of a protocol version.
type dialer struct {
	goplugin.NetRPCUnsupportedPlugin
}

// GRPCServer implements goplugin.GRPCPlugin.
func (*dialer) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the runner is not a plugin")
}

// GRPCClient implements goplugin.GRPCPlugin.
func (*dialer) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// wait ends the life with the process. go-plugin does not tell: it is asked.
func (p *process) wait() {
	tick := time.NewTicker(exitTime / 10)
	defer tick.Stop()
	for !p.client.Exited() {
		select {
		case <-p.Done():
			return
		case <-tick.C:
		}
	}
	p.finish("has ended; its log may say why")
}

// finish ends the life of a process, and the process. The first reason counts.
func (p *process) finish(what string) {
	failure := &Failure{Kind: p.kind, Plugin: p.name, What: what}
	p.Finish(&executor.Gone{Reason: failure.Error(), Err: failure})
	go p.kill()
}

// leave asks the process to end, and kills it if it does not.
func (p *process) leave() {
	p.end()
	if !p.awaitExit() {
		p.kill()
	}
}

// end has go-plugin end the process, once: it asks, for as long as a process that hangs likes, and clears up.
func (p *process) end() {
	p.exit.Do(func() {
		go func() {
			defer close(p.exited)
			p.client.Kill()
			tempfolder.Remove(p.sockets)
		}()
	})
}

// kill kills the process and waits until it has ended.
func (p *process) kill() {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // one that has ended is fine
	}
	p.end()
	p.awaitExit()
}

// awaitExit waits until the process has ended, but not for what it has started, which may hold its output for longer.
func (p *process) awaitExit() bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(exitTime):
		return false
	}
}

// open configures the process of an executor.
func (p *process) open(ctx context.Context, request *executorv1.OpenRequest) error {
	var first *executorv1.OpenResponse
	err := p.attend(ctx, func(living context.Context) (func() error, error) {
		stream, err := p.rpc.Open(living, request)
		if err != nil {
			return nil, err
		}
		return func() error {
			response, err := stream.Recv()
			if first == nil {
				first = response
			}
			return err
		}, nil
	})
	if err == nil {
		p.can = wire.DecodeCapabilities(first.GetCapabilities())
	}
	return err
}

// attend begins the call Open, which stays open as long as this program lives.
func (p *process) attend(ctx context.Context, begin func(living context.Context) (next func() error, err error)) error {
	living, cancel := context.WithCancel(context.Background())
	call := p.begin(ctx, "Open", limits.silence)
	defer call.end()
	stop := context.AfterFunc(call.ctx, cancel)
	next, err := begin(living)
	if err == nil {
		err = next()
	}
	if !stop() || err != nil {
		cancel()
		return call.failed(err)
	}
	go func() {
		for err == nil {
			err = next()
		}
		cancel()
		select { // the process is seen to end by itself, which says more
		case <-p.Done():
		case <-time.After(exitTime):
			p.finish("has ended its call Open, and cannot be used any more")
		}
	}()
	return nil
}

// call is a call of a plugin that is under way.
type call struct {
	process *process
	name    string
	limit   time.Duration
	ctx     context.Context
	cancel  context.CancelCauseFunc
	caller  context.Context
	timer   *time.Timer
}

// begin begins a call. The plugin must do something within the limit, each time that it is waited for.
func (p *process) begin(ctx context.Context, name string, limit time.Duration) *call {
	c := &call{process: p, name: name, limit: limit, caller: ctx}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.timer = time.AfterFunc(limit, func() {
		p.suspect(name, limit)
		c.cancel(&Failure{Kind: p.kind, Plugin: p.name, Call: name, What: fmt.Sprintf("has not answered for %s", limit)})
	})
	return c
}

// heard says that the plugin did something, and that more is waited for.
func (c *call) heard() { c.timer.Reset(c.limit) }

// rest says that the plugin is not waited for.
func (c *call) rest() { c.timer.Stop() }

func (c *call) end() {
	c.timer.Stop()
	c.cancel(nil)
}

// suspect asks a plugin that did not answer a call whether it answers at all, and ends it otherwise: that of other jobs goes on.
func (p *process) suspect(name string, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.probe)
	defer cancel()
	if err := p.describe(ctx); err != nil {
		p.finish(fmt.Sprintf("has not answered for %s (in its call %s), nor for %s to whether it is there, and was ended", limit, name, limits.probe))
	}
}

// failed is what the error of a call means. It returns nil for nil.
func (c *call) failed(err error) error {
	if err == nil {
		return nil
	}
	said, ok := c.process.said(err)
	var failure *Failure
	switch {
	case c.process.Err() != nil:
		return c.process.Err()
	case c.caller.Err() != nil:
		return context.Cause(c.caller)
	case c.ctx.Err() != nil && errors.As(context.Cause(c.ctx), &failure):
		return failure
	case ok:
		return said
	}
	switch status.Code(err) {
	case codes.Unimplemented:
		return &unsupported{&Failure{Kind: c.process.kind, Plugin: c.process.name, Call: c.name, What: "does not have this call"}}
	case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled:
		// The connection broke, most likely because the process is ending.
		select {
		case <-c.process.Done():
			return c.process.Err()
		case <-time.After(exitTime):
		}
	}
	return &Failure{Kind: c.process.kind, Plugin: c.process.name, Call: c.name, What: "has failed", Err: plainly(err)}
}

// unsupported is an optional call that a plugin does not have.
type unsupported struct{ *Failure }

// Unwrap makes errors.Is(err, errors.ErrUnsupported) true.
func (*unsupported) Unwrap() error { return errors.ErrUnsupported }

// PID is that of the plugin's process that has the environment, for tests of what happens when it ends. It is 0 for other environments.
func PID(env executor.Environment) int {
	v, ok := env.(*environment)
	if !ok {
		return 0
	}
	return v.process.pid()
}

func (p *process) pid() int {
	pid, err := strconv.Atoi(p.client.ID())
	if err != nil {
		return 0
	}
	return pid
}
