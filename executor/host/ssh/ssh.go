// Package ssh is a machine behind SSH as a host. Nothing needs to be installed there but an SSH server, a POSIX shell at /bin/sh and
// the usual commands; the user's login shell may be any that knows single quotes (sh, bash, dash, zsh, csh, fish).
//
// SSH itself is configured as OpenSSH's client is (internal/sshclient). One connection carries all commands; where the server
// refuses more sessions (MaxSessions), more connections are opened. A connection that breaks is opened again for the next call.
//
// How a command starts (script.go): the command line that the server's process list shows is always the same few words. They make
// a POSIX shell read the real command and its environment from standard input and become it, so that secrets stay out of sight and
// nothing of the command is interpreted by the login shell.
package ssh

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os/user"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
	"github.com/rungci/rung/internal/sshclient"
)

const (
	// keepAlive is how often a connection is tried.
	keepAlive = 3 * time.Second
	// lostAfter is how long a host may not answer. It leaves time for the last attempt within host.LostAfter.
	lostAfter = host.LostAfter - 4*time.Second
)

// Options say how to reach a host. Address or Connect is required.
type Options struct {
	// Connect opens a connection to a server that lets everybody in who has the connection, and that proves nothing by its key: one of
	// executor/host/sshd, at the other end of a command. Name is then the name of the host, and Address and all about keys mean nothing.
	// An error of it is final: the host is lost.
	Connect func(ctx context.Context) (net.Conn, error)
	Name    string
	// Present is the path on the host of a copy of the program that Program gives, with Connect; empty is none.
	Present string

	// Address is "[user@]host[:port]", "ssh://[user@]host[:port]" or an alias in the SSH configuration.
	Address string
	// Key is the path of a private key; empty is the agent's keys and those that the SSH configuration names.
	Key string
	// KeyText is a private key in PEM instead.
	KeyText []byte
	// KnownHosts are paths of known_hosts files; nil is the user's and the system's.
	KnownHosts []string
	// Renew gives a key and a password in place of KeyText and Password, for each connection; nil: those are good for all.
	Renew func(ctx context.Context) (key []byte, password string, err error)
	// Fingerprint pins the host's key ("SHA256:…", or several with spaces between) instead of known_hosts.
	Fingerprint string
	// Record adds the key of an unknown host to known_hosts on first use.
	Record bool
	// AnyHostKey accepts whatever key the host shows.
	AnyHostKey bool
	// Password is tried after the keys; empty is none.
	Password string
	// Jump lists jump hosts as OpenSSH's -J does; empty is what the SSH configuration says.
	Jump string
	// Via connects to the host in place of this machine and of jump hosts; nil: nobody does.
	Via func(ctx context.Context, network, address string) (net.Conn, error)
	// Config are paths of SSH configuration files; nil is the user's and the system's.
	Config []string
	// Program finds the file of a step-runner for the host's platform, which Files needs there. Nil leaves the host without Files.
	Program func(platform host.Platform) (file string, err error)
	// LostAfter is how long the host may not answer before it is given up; 0 is just under host.LostAfter.
	LostAfter time.Duration
}

// Host is a machine behind SSH.
type Host struct {
	options  Options
	name     string
	platform host.Platform
	pool     *pool
	sums     sums
	files    *remotefiles.Client
	sessions remotefiles.Sessions

	putting sync.Mutex
	program string // where the program for Files is on the host; "" is not known yet
}

var _ host.Host = (*Host)(nil)

// New connects to a host and finds out what it runs.
func New(ctx context.Context, o Options) (*Host, error) {
	if o.Connect != nil {
		h := &Host{options: o, name: o.Name}
		h.pool = newPool(h.name, h.connect, cmp.Or(o.LostAfter, lostAfter))
		return h.started(ctx)
	}
	target, err := sshclient.ParseTarget(o.Address)
	if err != nil {
		address := o.Address[strings.LastIndexByte(o.Address, '@')+1:] // without a password that may be in it
		return nil, fmt.Errorf("%q is not the address of an SSH host: %w", address, err)
	}
	if me, err := user.Current(); err == nil {
		target.DefaultUser = me.Username
	}
	target.Key, target.KeyText, target.KnownHosts, target.Fingerprint = o.Key, o.KeyText, o.KnownHosts, o.Fingerprint
	target.Record, target.Jump, target.Via, target.Config = o.Record, o.Jump, o.Via, o.Config
	target.AnyHostKey, target.Password = o.AnyHostKey, o.Password
	name, port := sshclient.Resolve(target)
	h := &Host{options: o, name: "ssh://" + name + "@" + net.JoinHostPort(target.Host, port)}
	h.pool = newPool(h.name, func(ctx context.Context, wrap func(net.Conn) net.Conn) (*ssh.Client, error) {
		if o.Renew == nil {
			return sshclient.Dial(ctx, target, wrap)
		}
		now := *target
		var err error
		if now.KeyText, now.Password, err = o.Renew(ctx); err != nil {
			return nil, fmt.Errorf("the credentials for %s: %w", h.name, err)
		}
		return sshclient.Dial(ctx, &now, wrap)
	}, cmp.Or(o.LostAfter, lostAfter))
	return h.started(ctx)
}

// connect makes a connection with Options.Connect.
func (h *Host) connect(ctx context.Context, wrap func(net.Conn) net.Conn) (*ssh.Client, error) {
	conn, err := h.options.Connect(ctx)
	if err != nil {
		return nil, &sshclient.Error{Message: err.Error()}
	}
	conn = wrap(conn)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c, channels, requests, err := ssh.NewClientConn(conn, h.name, &ssh.ClientConfig{
		User: "job", HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // whoever made the connection vouches for its other end
	})
	if err != nil {
		_ = conn.Close()
		return nil, &sshclient.Error{Message: err.Error()}
	}
	return ssh.NewClient(c, channels, requests), nil
}

// started makes the first connection.
func (h *Host) started(ctx context.Context) (*Host, error) {
	h.files = &remotefiles.Client{Run: h.runFiles}
	h.sessions.Start = h.startFiles
	if err := h.begin(ctx); err != nil {
		h.pool.close()
		return nil, err
	}
	return h, nil
}

// begin makes the first connection and asks for the platform.
func (h *Host) begin(ctx context.Context) error {
	version, err := h.pool.connect(ctx)
	if err != nil {
		return err
	}
	if strings.Contains(version, "Windows") {
		return fmt.Errorf("%s runs Windows, which is not supported over SSH", h.name)
	}
	var out, errs bytes.Buffer
	code, err := h.run(ctx, &host.Command{Args: []string{"uname", "-sm"}, Stdout: &out, Stderr: &errs})
	if err != nil {
		return fmt.Errorf("asking %s for its platform: %w", h.name, err)
	}
	if h.platform, err = ParsePlatform(out.String()); err != nil || code != 0 {
		return fmt.Errorf("the platform of %s is unknown: `uname -sm` exits with %d and says %q", h.name, code, strings.TrimSpace(out.String()+errs.String()))
	}
	return nil
}

// systems and architectures are what uname calls those that Go knows.
var (
	systems = map[string]string{
		"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd", "NetBSD": "netbsd", "OpenBSD": "openbsd", "DragonFly": "dragonfly",
	}
	architectures = map[string]string{
		"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv6l": "arm", "armv7l": "arm", "armv8l": "arm",
		"i386": "386", "i486": "386", "i586": "386", "i686": "386", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x", "loongarch64": "loong64",
	}
)

// ParsePlatform reads what `uname -sm` prints.
func ParsePlatform(text string) (host.Platform, error) {
	fields := strings.Fields(text)
	if len(fields) == 2 {
		p := host.Platform{OS: systems[fields[0]], Arch: architectures[fields[1]]}
		if p.OS != "" && p.Arch != "" {
			return p, nil
		}
	}
	return host.Platform{}, fmt.Errorf("%q is not a known platform", text)
}

// Name is ssh://user@host:port.
func (h *Host) Name() string { return h.name }

// Platform is what uname reports.
func (h *Host) Platform() host.Platform { return h.platform }

// Path has the rules for paths on the host.
func (h *Host) Path() host.Paths { return host.PathsOf(h.platform.OS) }

// Files are those of the host. They need Options.Program.
func (h *Host) Files() host.Files { return h.files }

// Done is closed when the host is lost for good.
func (h *Host) Done() <-chan struct{} { return h.pool.done }

// Err is why Done is closed.
func (h *Host) Err() error { return h.pool.why() }

// Close closes the connections.
func (h *Host) Close() error {
	h.pool.close()
	return nil
}

// run runs a command to its end.
func (h *Host) run(ctx context.Context, command *host.Command) (exitCode int, err error) {
	p, err := h.Exec(ctx, command)
	if err != nil {
		return -1, err
	}
	return p.Wait()
}
