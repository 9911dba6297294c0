//go:build unix

package plugin_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/fleet/group"
)

// chatty is a plugin that prints whenever it can, as do the programs that it starts.
const chatty = `#!/usr/bin/python3
import subprocess
import sys

sys.path.insert(0, "SDK")
import rung_instancegroup

print("before it serves")


class Chatty(rung_instancegroup.Cloud):
    name, version = "chatty", "0.1.0"

    def open(self, settings, options):
        return "chatty", 1

    def machines(self):
        print("in a call", "x" * 100_000)
        subprocess.run(["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' y; echo"], check=True)
        return []

    def create(self, order):
        raise rung_instancegroup.quota("none")

    def delete(self, id):
        pass


rung_instancegroup.serve(Chatty())
`

func TestAPluginInPythonMayPrint(t *testing.T) {
	c, _ := commands(t, nil) // skips where there is no Python
	sdk, err := filepath.Abs("../../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	c.File = filepath.Join(t.TempDir(), "group-plugin-chatty")
	if err := os.WriteFile(c.File, []byte(strings.Replace(chatty, "SDK", sdk, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer // it is written before the plugin has ended, and read after that
	c.Options, c.Log = nil, slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g, err := inPython(t, c, group.ConnectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := g.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`msg="before it serves"`, `msg="in a call xxx`, "msg=yyy"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}
