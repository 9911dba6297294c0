package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/rungci/rung/internal/lastoutput"
	"github.com/rungci/rung/internal/pluginhost/handshake"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/internal/textbusy"
)

const (
	// startTime bounds how long a plugin may take until it can be called.
	startTime = 20 * time.Second
	// exitTime is how long a plugin whose connection broke is waited for, to see that it has ended.
	exitTime = 2 * time.Second
)

// Process is one process of a plugin.
type Process struct {
	// Conn is the connection to it.
	Conn *grpc.ClientConn

	kind    *Kind
	name    string
	client  *goplugin.Client
	ended   context.Context // for the reason why
	finish  context.CancelCauseFunc
	kill    context.CancelFunc
	output  *lastoutput.Buffer
	sockets string // the folder of its sockets, which it may leave behind
	exit    sync.Once
	exited  chan struct{}
}

// passed are the variables that every plugin gets of this program's. GORACE is for those that are built with the race detector.
var passed = []string{"GORACE", "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "SystemRoot", "SYSTEMROOT", "USERPROFILE", "ComSpec", "PATHEXT"}

// Start starts a process of a plugin of this kind from a file, which Verified gave and may just have written.
func (k *Kind) Start(ctx context.Context, c *Config, file string) (*Process, error) {
	var p *Process
	err := textbusy.Retry(func() (err error) {
		p, err = k.start(ctx, c, file)
		return err
	})
	if p != nil && err != nil {
		return nil, p.notStarted(err)
	}
	return p, err
}

// start starts a process. With an error there is none, and what is returned beside it may say why.
func (k *Kind) start(ctx context.Context, c *Config, file string) (*Process, error) {
	tls, certificate, err := mutualTLS()
	if err != nil {
		return nil, err
	}
	sockets, err := tempfolder.Make("sockets")
	if err != nil {
		return nil, err
	}
	alive, kill := context.WithCancel(context.Background()) // so that it can be killed before, while and after it is started
	cmd := exec.CommandContext(alive, file, c.Args...)
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(append(cmd.Env, c.Env...), certificateVariable+"="+certificate, goplugin.EnvUnixSocketDir+"="+sockets)
	p := &Process{kind: k, name: c.Name, kill: kill, output: &lastoutput.Buffer{Max: maxSaid}, sockets: sockets, exited: make(chan struct{})}
	p.ended, p.finish = context.WithCancelCause(context.Background())
	log := c.logger()
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue},
		VersionedPlugins: k.versions(),
		RunnerFunc:       run(cmd, log, p.output), UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: sockets},
		SkipHostEnv: true, TLSConfig: tls, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout: startTime, Logger: log, GRPCDialOptions: handshake.DialOptions(),
	})
	connected := make(chan error, 1)
	go func() { connected <- p.connect() }()
	select {
	case err = <-connected:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		go p.Kill()
		return p, err
	}
	go p.wait()
	return p, nil
}

// versions are those that the runner speaks, as go-plugin offers them.
func (k *Kind) versions() map[int]goplugin.PluginSet {
	all := map[int]goplugin.PluginSet{}
	for version := range k.Services {
		all[version] = goplugin.PluginSet{handshake.Name: &dialer{}}
	}
	return all
}

// Version is that of the protocol which the plugin has chosen: the newest that both sides speak.
func (p *Process) Version() int { return p.client.NegotiatedVersion() }

// unknownVersion is what go-plugin says of a plugin that speaks none of the runner's versions.
const unknownVersion = "incompatible API version with plugin. Plugin version: %d,"

// versionError says what to do about a plugin that speaks none of the runner's versions; nil where that is not what is wrong.
func (k *Kind) versionError(err error) error {
	var theirs int
	if _, err := fmt.Sscanf(err.Error(), unknownVersion, &theirs); err != nil {
		return nil
	}
	ours := slices.Sorted(maps.Keys(k.Services))
	texts := make([]string, len(ours))
	for i, version := range ours {
		texts[i] = strconv.Itoa(version)
	}
	what := "version "
	if len(ours) > 1 {
		what = "versions "
	}
	advice := "it needs a newer rung, or an older version of the plugin"
	if theirs < ours[0] {
		advice = "install a newer version of the plugin"
	}
	return fmt.Errorf("it speaks version %d of the protocol, and this rung %s; %s", theirs, what+strings.Join(texts, " and "), advice)
}

// foreignText is what a program that go-plugin made says when it is started by one that is not its own.
const foreignText = "This binary is a plugin"

// notStarted says why a plugin does not start.
func (p *Process) notStarted(err error) error {
	failure := &Failure{Kind: p.kind.Name, Plugin: p.name, What: "does not start", Err: plainly(err)}
	if wrong := p.kind.versionError(err); wrong != nil {
		failure.Err = wrong
	}
	if errors.Is(err, fs.ErrPermission) {
		failure.Err = fmt.Errorf("%w: this user may not run it, or its folder is on a file system that is mounted noexec; a plugin whose digest is pinned is copied to $TMPDIR, which can be set to another folder", err)
	}
	said := p.output.String()
	if strings.Contains(said, foreignText) {
		text := "it is one of another program, whose protocol this one does not speak"
		if p.kind.Advice != "" {
			text += ": " + p.kind.Advice
		}
		failure.Err = errors.New(text)
	} else if said != "" {
		failure.Err = fmt.Errorf("%w; it says:\n%s", failure.Err, said)
	}
	return failure
}

// maxPrinted bounds what is told of a line that a program prints which is no plugin, in bytes.
const maxPrinted = 200

// notAPlugin is what go-plugin says of a program whose first line is not that of a plugin.
const notAPlugin = "Unrecognized remote plugin message:"

// plainly leaves out of go-plugin's errors what is for somebody who writes a program with it.
func plainly(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if printed, ok := strings.CutPrefix(text, notAPlugin); ok {
		if printed = strings.TrimSpace(printed); printed == "" {
			return errors.New("it ends, or closes its output, before it says where it listens")
		}
		if len(printed) > maxPrinted {
			printed = strings.ToValidUTF8(printed[:maxPrinted], "") + "…"
		}
		return fmt.Errorf("it prints %q, and not where it listens; only the plugin itself may print to standard output", printed)
	}
	return errors.New(strings.TrimSpace(text))
}

func (p *Process) connect() error {
	protocol, err := p.client.Client()
	if err != nil {
		for until := time.Now().Add(exitTime); p.PID() != 0 && !p.client.Exited() && time.Now().Before(until); { // what it has written is read then
			time.Sleep(exitTime / 100)
		}
		return err
	}
	raw, err := protocol.Dispense(handshake.Name)
	if err != nil {
		return err
	}
	p.Conn = raw.(*grpc.ClientConn)
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

// Name is what the configuration calls the plugin.
func (p *Process) Name() string { return p.name }

// Lifetime is a context that ends with the process, for the reason why.
func (p *Process) Lifetime() context.Context { return p.ended }

// Done is closed when the process has ended, or is not used any more.
func (p *Process) Done() <-chan struct{} { return p.ended.Done() }

// Err says why the process has ended; nil before. It is what the kind makes of a *Failure, or the error of Finish.
func (p *Process) Err() error { return context.Cause(p.ended) }

// Finish says that the process is not used any more. The first reason counts.
func (p *Process) Finish(why error) { p.finish(why) }

// Fail ends the process, which has done something. The first reason counts.
func (p *Process) Fail(what string) {
	failure := &Failure{Kind: p.kind.Name, Plugin: p.name, What: what}
	if p.kind.Gone != nil {
		p.finish(p.kind.Gone(failure))
	} else {
		p.finish(failure)
	}
	go p.Kill()
}

// wait ends the life with the process. go-plugin does not tell: it is asked.
func (p *Process) wait() {
	tick := time.NewTicker(exitTime / 10)
	defer tick.Stop()
	for !p.client.Exited() {
		select {
		case <-p.Done():
			return
		case <-tick.C:
		}
	}
	p.Fail("has ended; its log may say why")
}

// Leave asks the process to end, and kills it if it does not.
func (p *Process) Leave() {
	p.end()
	if !p.awaitExit() {
		p.Kill()
	}
}

// end has go-plugin end the process, once: it asks, for as long as a process that hangs likes, and clears up.
func (p *Process) end() {
	p.exit.Do(func() {
		go func() {
			defer close(p.exited)
			p.client.Kill()
			p.kill() // a context that nobody ends is not collected
			tempfolder.Remove(p.sockets)
		}()
	})
}

// Kill kills the process and waits until it has ended.
func (p *Process) Kill() {
	p.kill()
	p.end()
	p.awaitExit()
}

// awaitExit waits until the process has ended, but not for what it has started, which may hold its output for longer.
func (p *Process) awaitExit() bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(exitTime):
		return false
	}
}

// PID is that of the process, for tests of what happens when it ends; 0 when it has.
func (p *Process) PID() int {
	pid, err := strconv.Atoi(p.client.ID())
	if err != nil {
		return 0
	}
	return pid
}

// maxSaid is how much of what a process writes to standard error is kept, in bytes.
const maxSaid = 4 << 10
