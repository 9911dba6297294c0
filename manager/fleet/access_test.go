package fleet

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/manager/config"
)

func TestHowMachinesAreReached(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	recorded := filepath.Join(state, keysFolder, "r-1")
	soon := time.Now().Add(time.Minute)
	to := group.ConnectorConfig{Username: "ci", Key: []byte("KEY")}
	for name, c := range map[string]struct {
		settings config.Connector
		info     group.ConnectInfo
		want     provider.Access // without Renew
		renews   bool
	}{
		"a key of the group, and the key of a host that nobody knows": {
			config.Connector{}, group.ConnectInfo{ConnectorConfig: to, InternalAddr: "10.0.0.1", ExternalAddr: "192.0.2.1"},
			provider.Access{Address: "10.0.0.1:22", User: "ci", Key: []byte("KEY"), KnownHosts: recorded, Record: true}, false,
		},
		"keys of the host that the group knows": {
			config.Connector{}, group.ConnectInfo{ConnectorConfig: to, InternalAddr: "10.0.0.1:2222", HostKeys: []string{"SHA256:a", "SHA256:b"}},
			provider.Access{Address: "10.0.0.1:2222", User: "ci", Key: []byte("KEY"), HostKey: "SHA256:a SHA256:b"}, false,
		},
		"the external address": {
			config.Connector{UseExternalAddr: true}, group.ConnectInfo{ConnectorConfig: to, InternalAddr: "10.0.0.1", ExternalAddr: "192.0.2.1"},
			provider.Access{Address: "192.0.2.1:22", User: "ci", Key: []byte("KEY"), KnownHosts: recorded, Record: true}, false,
		},
		"the only address there is": {
			config.Connector{UseExternalAddr: true}, group.ConnectInfo{ConnectorConfig: to, InternalAddr: "10.0.0.1"},
			provider.Access{Address: "10.0.0.1:22", User: "ci", Key: []byte("KEY"), KnownHosts: recorded, Record: true}, false,
		},
		"what the operator gives, where the group gives nothing": {
			config.Connector{Username: "admin", Password: "p4ss", UseStaticCredentials: true}, group.ConnectInfo{InternalAddr: "10.0.0.1"},
			provider.Access{Address: "10.0.0.1:22", User: "admin", Password: "p4ss", KnownHosts: recorded, Record: true}, false,
		},
		"credentials that are good for a while": {
			config.Connector{}, group.ConnectInfo{ConnectorConfig: to, InternalAddr: "10.0.0.1", Expires: &soon},
			provider.Access{Address: "10.0.0.1:22", User: "ci", Key: []byte("KEY"), KnownHosts: recorded, Record: true}, true,
		},
		"WinRM, by TLS, with a certificate that is pinned": {
			config.Connector{Username: "admin", Password: "p4ss"},
			group.ConnectInfo{ConnectorConfig: group.ConnectorConfig{Protocol: group.ProtocolWinRMHttps, Username: "Administrator", Password: "w0rd", Key: []byte("KEY")}, InternalAddr: "10.0.0.1", HostKeys: []string{"SHA256:a"}},
			provider.Access{Protocol: provider.WinRMHTTPS, Address: "10.0.0.1:5986", User: "Administrator", Password: "w0rd", HostKey: "SHA256:a"}, false,
		},
		"WinRM, with what the operator gives": {
			config.Connector{Username: "admin", Password: "p4ss"},
			group.ConnectInfo{ConnectorConfig: group.ConnectorConfig{Protocol: group.ProtocolWinRM, Key: []byte("KEY")}, InternalAddr: "10.0.0.1"},
			provider.Access{Protocol: provider.WinRM, Address: "10.0.0.1:5985", User: "admin", Password: "p4ss"}, false,
		},
		"WinRM, with another port": {
			config.Connector{}, group.ConnectInfo{ConnectorConfig: group.ConnectorConfig{Protocol: group.ProtocolWinRM, ProtocolPort: 80, Username: "u", Password: "w0rd"}, InternalAddr: "10.0.0.1", Expires: &soon},
			provider.Access{Protocol: provider.WinRM, Address: "10.0.0.1:80", User: "u", Password: "w0rd"}, true,
		},
	} {
		h := &hosts{p: &Provider{o: Options{Setup: provider.Setup{State: state}, Machinery: &config.Machinery{Autoscaler: &config.Autoscaler{Connector: c.settings}}}}}
		got, err := h.access(&control.Machine{Request: "r-1"}, c.info)
		if err != nil {
			t.Error(name, err)
			continue
		}
		if (got.Renew != nil) != c.renews {
			t.Errorf("%s: renewed: %v", name, got.Renew != nil)
		}
		if c.renews {
			if _, _, err := got.Renew(context.Background()); err == nil {
				t.Errorf("%s: the credentials of a machine that is gone: %v", name, err)
			}
		}
		got.Renew, c.want.Protocol = nil, cmp.Or(c.want.Protocol, provider.SSH)
		if err := got.Validate(); err != nil {
			t.Error(name, err)
		}
		if got.String() != c.want.String() || got.Password != c.want.Password || string(got.Key) != string(c.want.Key) ||
			got.HostKey != c.want.HostKey || got.KnownHosts != c.want.KnownHosts || got.Record != c.want.Record {
			t.Errorf("%s: %s %+v, want %+v", name, got.String(), got.KnownHosts, c.want.KnownHosts)
		}
	}
	h := &hosts{p: &Provider{o: Options{Machinery: &config.Machinery{Autoscaler: &config.Autoscaler{}}}}}
	if _, err := h.access(&control.Machine{}, group.ConnectInfo{ConnectorConfig: group.ConnectorConfig{Protocol: "telnet"}, InternalAddr: "a"}); !errors.Is(err, control.ErrUseless) {
		t.Error("a machine that is reached by telnet:", err)
	}
}

func TestACommandOfAMachineIsOneOfItsSystem(t *testing.T) {
	t.Parallel()
	windows, linux := host.Platform{OS: "windows"}, host.Platform{OS: "linux"}
	for want, got := range map[string][]string{
		"true":                   nothing(linux),
		"cmd.exe /d /c exit 0":   nothing(windows),
		"/bin/sh -c test -e /on": readyCommand(linux, "test -e /on"),
		"powershell.exe -NoProfile -NonInteractive -Command Test-Path C:\\on": readyCommand(windows, `Test-Path C:\on`),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
