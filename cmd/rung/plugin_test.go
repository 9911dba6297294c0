package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/plugin"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// registry starts a container registry for a script, whose address is then in $REGISTRY: registry [USER PASSWORD].
func registry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 && len(args) != 2 {
		ts.Fatalf("usage: registry [USER PASSWORD]")
	}
	r := sourcetest.NewRegistry(false)
	ts.Defer(r.Close)
	if len(args) == 2 {
		r.Protect(sourcetest.Token, args[0], args[1])
	}
	ts.Setenv("REGISTRY", r.Host())
}

// pluginCommand builds an example of a plugin: plugin executor NAME makes executor-plugin-NAME, plugin provider NAME provider-plugin-NAME,
// plugin group NAME group-plugin-NAME. Its SHA-256 is in $SHA256.
func pluginCommand(ts *testscript.TestScript, neg bool, args []string) {
	prefixes := map[string]string{"executor": plugin.Prefix, "provider": plugin.ProviderPrefix, "group": groupplugin.Prefix}
	if neg || len(args) != 2 || prefixes[args[0]] == "" {
		ts.Fatalf("usage: plugin executor|provider|group NAME")
	}
	name := prefixes[args[0]] + args[1]
	file := ts.MkAbs(name)
	out, err := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/examples/plugins/"+name).CombinedOutput()
	if err != nil {
		ts.Fatalf("building the example: %v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	ts.Check(err)
	sum := sha256.Sum256(program)
	ts.Setenv("SHA256", hex.EncodeToString(sum[:]))
}
