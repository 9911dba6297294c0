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

// builds builds a new plugin as its README says, with the SDK of this repository: builds FOLDER makes bin/FOLDER.
func builds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: builds FOLDER")
	}
	folder := ts.MkAbs(args[0])
	program := ts.MkAbs(filepath.Join("bin", args[0]))
	ts.Check(os.MkdirAll(filepath.Dir(program), 0o755))
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "__main__.py")); err == nil {
		run("/usr/bin/python3", "-m", "zipapp", ".", "-p", "/usr/bin/python3", "-o", program)
		return
	}
	root, err := filepath.Abs("../..")
	ts.Check(err)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum")) // instead of the network
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o644))
	run("go", "mod", "edit", "-require=github.com/rungci/rung@v0.0.0", "-replace=github.com/rungci/rung@v0.0.0="+root)
	run("go", "vet", ".")
	run("go", "build", "-o", program, ".")
}
