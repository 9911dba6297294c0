package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestNewPlugins runs the stories of testdata/scaffold: what `rung plugin new` writes passes the suite of its kind.
func TestNewPlugins(t *testing.T) {
	t.Parallel()
	runStories(t, testscript.Params{Files: []string{"testdata/scaffold/go.txtar"}, Cmds: map[string]func(*testscript.TestScript, bool, []string){"builds": builds, "short": short}}, nil)
}

// TestNewPluginsInPython needs what plugins in Python need.
func TestNewPluginsInPython(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import grpc, google.protobuf").Run(); err != nil {
		enginetest.Skip(t, "Python with grpcio and protobuf")
	}
	enginetest.Program(t, "openssl")
	t.Parallel()
	runStories(t, testscript.Params{Files: []string{"testdata/scaffold/python.txtar"}, Cmds: map[string]func(*testscript.TestScript, bool, []string){"builds": builds, "short": short}}, nil)
}

// short makes the usual folder the one for temporary files, whose name is short: jobs have sockets there.
func short(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("TMPDIR", os.TempDir()) }

// builds follows the README of a new plugin in its folder, with the SDK of this repository: builds FOLDER makes the program, whose file is in $PROGRAM as the README
// names it for the test; builds FOLDER publish brings it to $REGISTRY.
func builds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "publish" {
		ts.Fatalf("usage: builds FOLDER [publish]")
	}
	folder := ts.MkAbs(args[0])
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "PATH="+ts.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	readme := blocks(ts.ReadFile(filepath.Join(args[0], "README.md")))
	if len(readme) != 2 {
		ts.Fatalf("the README has %d blocks of commands, not one to build and one to publish", len(readme))
	}
	if len(args) == 2 {
		run("bash", "-ec", strings.ReplaceAll(readme[1], "registry.example.com", ts.Getenv("REGISTRY")))
		return
	}
	before, file, found := strings.Cut(readme[0], "rung plugin test ")
	if !found {
		ts.Fatalf("the README does not say how to try the plugin")
	}
	ts.Setenv("PROGRAM", filepath.Join(folder, filepath.FromSlash(strings.TrimSpace(file))))
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
		root, err := filepath.Abs("../..")
		ts.Check(err)
		sums, err := os.ReadFile(filepath.Join(root, "go.sum")) // instead of the network
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o644))
		run("go", "mod", "edit", "-require=github.com/rungci/rung@v0.0.0", "-replace=github.com/rungci/rung@v0.0.0="+root)
		run("go", "vet", ".")
		before = strings.Replace(before, "go mod tidy\n", "", 1) // which asks the network
	}
	run("bash", "-ec", before)
}

// blocks are the commands of a document, block by block.
func blocks(text string) (all []string) {
	for i, part := range strings.Split(text, "```") {
		if commands, ok := strings.CutPrefix(part, "sh\n"); ok && i%2 == 1 {
			all = append(all, commands)
		}
	}
	return all
}
