// Package sshclient connects to SSH servers the way OpenSSH's client is configured to: ~/.ssh/config, the agent, the keys in
// ~/.ssh, known_hosts and jump hosts. Host keys are always checked.
//
// ProxyCommand and Match blocks are not supported.
package sshclient

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// ConnectTimeout bounds how long it may take to reach a host, in each hop.
	ConnectTimeout = 30 * time.Second
	// DefaultPort is the port of SSH servers.
	DefaultPort = "22"
	// maxJumps bounds the number of jump hosts in one way.
	maxJumps = 8
)

// Target says where to connect, and as whom. Empty fields are filled in from the SSH configuration.
type Target struct {
	Host string // a name, an address, or an alias in the SSH configuration
	Port string
	User string
	// DefaultUser is used if nothing names a user.
	DefaultUser string
	// Password is tried after the keys.
	Password string
	// Key is the path of a private key; no other is used then.
	Key string
	// KeyText is a private key in PEM that is in no file; no other is used then.
	KeyText []byte
	// KnownHosts are paths of known_hosts files; nil is the user's and the system's.
	KnownHosts []string
	// Fingerprint pins the host's key: "SHA256:…", as ssh-keygen -l shows it, or several with spaces between, each of which is right. The known_hosts files
	// are not read then.
	Fingerprint string
	// Record adds the key of an unknown host to the first known_hosts file, as OpenSSH's StrictHostKeyChecking=accept-new does.
	Record bool
	// AnyHostKey accepts whatever key the host shows, as OpenSSH's StrictHostKeyChecking=no does without a list of known hosts: whoever can
	// intercept the connection can be the host.
	AnyHostKey bool
	// Jump lists jump hosts, as OpenSSH's -J does: "[user@]host[:port],…". Empty is what the configuration says, "none" is none.
	Jump string
	// Via connects to the server's port in place of this machine and of jump hosts; nil: nobody does.
	Via func(ctx context.Context, network, address string) (net.Conn, error)
	// Config are paths of configuration files; nil is the user's and the system's.
	Config []string
}

// Error says that a host does not let us in, or that we do not trust it.
type Error struct{ Message, Hint string }

func (e *Error) Error() string { return e.Message }

// BrokenError says that a connection broke while it was being made.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns the error below.
func (e *BrokenError) Unwrap() error { return e.Err }

// Dial connects to a host, by way of jump hosts if there are any. ctx bounds connecting only. wrap, if it is not nil, is put
// around the connection that carries the last hop. Errors are *Error, *BrokenError or the network's.
func Dial(ctx context.Context, target *Target, wrap func(net.Conn) net.Conn) (*ssh.Client, error) {
	return dial(ctx, target, wrap, maxJumps)
}

func dial(ctx context.Context, target *Target, wrap func(net.Conn) net.Conn, jumps int) (*ssh.Client, error) {
	settings := readSettings(target)
	hosts, err := newHostKeys(settings, target)
	if err != nil {
		return nil, err
	}
	keys := findKeys(settings)
	defer keys.close()
	conn, err := reach(ctx, target, settings, jumps)
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		conn = wrap(conn)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, ConnectTimeout, fmt.Errorf("%s does not answer within %s", settings.hostPort, ConnectTimeout))
	defer cancel()
	// The connection is the only thing that everything else waits for.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, settings.hostPort, &ssh.ClientConfig{
		User: settings.user, Auth: keys.methods(target.Password), HostKeyCallback: hosts.check, HostKeyAlgorithms: hosts.algorithms(),
	})
	if !stop() && ctx.Err() != nil {
		_ = conn.Close()
		return nil, context.Cause(ctx)
	}
	if err == nil {
		return ssh.NewClient(c, channels, requests), nil
	}
	_ = conn.Close()
	switch {
	case hosts.refused != nil:
		return nil, hosts.refused
	case strings.Contains(err.Error(), "unable to authenticate"):
		what := " accepts none of the keys that exist"
		if target.Password != "" {
			what = " accepts neither the password nor any of the keys that exist"
		}
		return nil, &Error{settings.hostPort + what + " for the user " + settings.user, keys.hint()}
	}
	return nil, settings.explain(&BrokenError{err})
}

// reach opens a connection to the server's port, through the jump hosts.
func reach(ctx context.Context, target *Target, settings *settings, jumps int) (net.Conn, error) {
	if target.Via != nil {
		ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
		defer cancel()
		conn, err := target.Via(ctx, "tcp", settings.hostPort)
		if err != nil {
			return nil, &BrokenError{fmt.Errorf("%s cannot be reached: %w", settings.hostPort, err)}
		}
		return conn, nil
	}
	if settings.jump == "" {
		ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", settings.hostPort)
		if err != nil {
			return nil, settings.explain(err)
		}
		return conn, nil
	}
	if jumps == 0 {
		return nil, &Error{fmt.Sprintf("the way to %s has more than %d jump hosts", settings.hostPort, maxJumps), "check ProxyJump in the SSH configuration for a circle"}
	}
	before, last := "", settings.jump
	if i := strings.LastIndexByte(last, ','); i >= 0 {
		before, last = last[:i], last[i+1:]
	}
	hop, err := ParseTarget(last)
	if err != nil {
		return nil, &Error{fmt.Sprintf("%q is not a jump host: %v", last, err), "write [user@]host[:port]"}
	}
	hop.DefaultUser, hop.KnownHosts, hop.Record, hop.Config = cmp.Or(target.DefaultUser, target.User), target.KnownHosts, target.Record, target.Config
	hop.Key, hop.KeyText, hop.Jump, hop.AnyHostKey = target.Key, target.KeyText, before, target.AnyHostKey
	client, err := dial(ctx, hop, nil, jumps-1)
	if err != nil {
		return nil, fmt.Errorf("jump host %s: %w", last, err)
	}
	conn, err := client.DialContext(ctx, "tcp", settings.hostPort)
	if err != nil {
		_ = client.Close()
		return nil, &BrokenError{fmt.Errorf("%s cannot be reached from the jump host %s: %w", settings.hostPort, last, err)}
	}
	return &jumpedConn{Conn: conn, client: client}, nil
}

// jumpedConn is a connection through a jump host, whose own connection closes with it.
type jumpedConn struct {
	net.Conn
	client *ssh.Client
}

func (c *jumpedConn) Close() error {
	_ = c.Conn.Close()
	return c.client.Close()
}

// ParseTarget reads "[user@]host[:port]" or "ssh://[user@]host[:port]". A host in brackets is an IPv6 address.
func ParseTarget(text string) (*Target, error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "ssh://"), "/")
	t := &Target{}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		t.User, rest = rest[:i], rest[i+1:]
		if t.User == "" || strings.ContainsRune(t.User, ':') {
			return nil, fmt.Errorf("it has no valid user; write user@host, without a password")
		}
	}
	t.Host = rest
	if strings.HasPrefix(rest, "[") || strings.Count(rest, ":") == 1 {
		if strings.HasSuffix(rest, "]") {
			t.Host = rest[1 : len(rest)-1]
		} else {
			host, port, err := net.SplitHostPort(rest)
			if err != nil || port == "" {
				return nil, fmt.Errorf("it has no valid port; write host:port")
			}
			t.Host, t.Port = host, port
		}
	}
	if t.Host == "" || strings.HasPrefix(t.Host, "-") || strings.ContainsAny(t.Host, "/ \t\r\n\x00") {
		return nil, fmt.Errorf("%q is not the name of a host", t.Host)
	}
	return t, nil
}
