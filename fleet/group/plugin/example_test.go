//go:build unix

package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginoption"
)

// static is the example, with so many hosts that answer.
func static(t *testing.T, count int) (c plugin.Config, hosts map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), plugin.Prefix+"static")
	if out, err := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/examples/plugins/group-plugin-static").CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, out)
	}
	hosts = map[string]string{}
	for i := range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		hosts[fmt.Sprint("host-", i)] = listener.Addr().String()
	}
	options, err := json.Marshal(map[string]any{"hosts": hosts})
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Config{Config: pluginhost.Config{Name: "static", File: file, Options: options, Log: slog.New(slog.DiscardHandler)}}, hosts
}

func TestTheExamplePassesTheSuite(t *testing.T) {
	c, _ := static(t, 3)
	grouptest.Run(t, grouptest.Subject{Open: func(*testing.T) group.Basic { return plugin.New(c) }, Kill: kill})
}

func TestTheExampleTakesHostsFromItsList(t *testing.T) {
	c, hosts := static(t, 1)
	if host, _, err := net.SplitHostPort(hosts["host-0"]); err != nil || host == "" {
		t.Fatal(err)
	}
	g := group.Adapt(plugin.New(c))
	info, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us", State: t.TempDir(), ConnectorConfig: group.ConnectorConfig{Username: "ci"}})
	if err != nil || info.MaxSize != 1 {
		t.Fatal(info, err)
	}
	t.Cleanup(func() { _ = g.Shutdown(t.Context()) })
	created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 2})
	if created.Count != 1 || err == nil || !strings.Contains(err.Error(), "all 1 hosts of the list are in use") {
		t.Fatalf("%+v, %v", created, err)
	}
	connect, err := g.ConnectInfo(t.Context(), created.Instances[0])
	if err != nil || connect.Addr(false) != hosts["host-0"] || connect.Username != "ci" || !strings.Contains(string(connect.Key), "PRIVATE KEY") {
		t.Errorf("%v, %v", connect, err)
	}
}

func TestTheExampleSaysWhatIsWrongWithItsOptions(t *testing.T) {
	c, _ := static(t, 0)
	for options, want := range map[string]struct{ text, pointer string }{
		`{}`:                    {`the option "hosts" lists no hosts`, "/hosts"},
		`{"hosts": 3}`:          {`the option "hosts" must be map[string]string, not number`, "/hosts"},
		`{"hosts": {"a": [] }}`: {`the option "hosts`, "/hosts"},
		`{"host": "x"}`:         {`unknown field "host"`, "/host"},
		`{"hosts": {}} x`:       {"the options must be a JSON object", ""},
	} {
		c.Options = json.RawMessage(options)
		err := initialised(t, c)
		if err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", options, err)
		}
		var wrong *pluginoption.Errors
		if errors.As(err, &wrong) != (want.pointer != "") || wrong != nil && !strings.HasPrefix(wrong.All[0].Pointer, want.pointer) {
			t.Errorf("%s: it is about %+v", options, wrong)
		}
	}
}
