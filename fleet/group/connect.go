package group

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// Protocol is how an instance is reached.
type Protocol string

// The protocols.
const (
	ProtocolSSH        Protocol = "ssh"
	ProtocolWinRM      Protocol = "winrm"
	ProtocolWinRMHttps Protocol = "winrm+https"
)

// ports are those of protocols that nobody gives another.
var ports = map[Protocol]int{ProtocolSSH: 22, ProtocolWinRM: 5985, ProtocolWinRMHttps: 5986}

// Port is the protocol's own port; 0 for a protocol that is not known. The empty protocol is SSH.
func (p Protocol) Port() int { return ports[cmp.Or(p, ProtocolSSH)] }

// ConnectorConfig is how instances are reached. It holds secrets, which it does not show when it is printed.
type ConnectorConfig struct {
	OS, Arch     string // as GOOS and GOARCH have them; empty: not known
	Protocol     Protocol
	ProtocolPort int // 0: the protocol's own
	Username     string
	Password     string
	// Key is a private key in PEM.
	Key []byte
	// UseStaticCredentials says that Username, Password and Key are as the operator gave them, and the group makes none.
	UseStaticCredentials bool
	// Keepalive is how often a connection that is silent is asked, and Timeout how long connecting may take; 0 leaves both to the connector.
	Keepalive, Timeout time.Duration
}

// ConnectInfo is how one instance is reached. It holds secrets, which it does not show when it is printed.
type ConnectInfo struct {
	ConnectorConfig
	// ID is the instance's.
	ID string
	// ExternalAddr and InternalAddr are names or addresses, with a port of their own or without.
	ExternalAddr, InternalAddr string
	// Expires is when the credentials are of no use any more; nil: never.
	Expires *time.Time
	// HostKeys are the fingerprints of the instance's SSH keys ("SHA256:…"), with winrm+https of its certificate, one of which it must show. Empty: the key of the first
	// connection is remembered, and a certificate is believed as others are.
	HostKeys []string
}

// Addr is where to connect, as host:port: the external address if that is wanted, else the internal one, and whichever there is if there is one only. It is
// empty where there is none.
func (i ConnectInfo) Addr(external bool) string {
	addr := cmp.Or(i.InternalAddr, i.ExternalAddr)
	if external {
		addr = cmp.Or(i.ExternalAddr, i.InternalAddr)
	}
	if addr == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(cmp.Or(i.ProtocolPort, i.Protocol.Port())))
}

// String is the configuration without secrets.
func (c ConnectorConfig) String() string {
	return fmt.Sprintf("%s %s/%s user %q", cmp.Or(c.Protocol, ProtocolSSH), c.OS, c.Arch, c.Username)
}

// GoString is String: %#v shows no secrets either.
func (c ConnectorConfig) GoString() string { return c.String() }

// LogValue implements slog.LogValuer.
func (c ConnectorConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String is the information without secrets.
func (i ConnectInfo) String() string {
	return fmt.Sprintf("%s at %q (external) %q (internal), %s", i.ID, i.ExternalAddr, i.InternalAddr, i.ConnectorConfig)
}

// GoString is String.
func (i ConnectInfo) GoString() string { return i.String() }

// LogValue implements slog.LogValuer.
func (i ConnectInfo) LogValue() slog.Value { return slog.StringValue(i.String()) }

// check returns an error for what does not lead to the instance.
func (i ConnectInfo) check(instance string) error {
	switch {
	case i.ID != instance:
		return fmt.Errorf("the group gave the connection of the instance %q when asked for %q", i.ID, instance)
	case i.Protocol.Port() == 0:
		return fmt.Errorf("the group says that the instance %q is reached by %q, which must be %q, %q or %q", instance, i.Protocol, ProtocolSSH, ProtocolWinRM, ProtocolWinRMHttps)
	case i.ExternalAddr == "" && i.InternalAddr == "":
		return fmt.Errorf("the group gave no address of the instance %q", instance)
	}
	return nil
}
