package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/internal/process"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"step-runner": child})
}

// tests are those of this package; what they have built goes with the last of them.
type tests struct{ *testing.M }

// Run implements testscript.TestingM.
func (t tests) Run() int {
	defer executortest.RemoveProgram()
	if signal.Ignored(syscall.SIGHUP) { // under nohup: the programs that tests start have their own way with it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return t.M.Run()
}

// noExitSleep tells the race detector not to wait before a program ends, a second by default. Scripts start hundreds of them.
const noExitSleep = "atexit_sleep_ms=0"

// child is main for the programs that tests start. A step has an environment of its own, without GORACE, so that the race detector
// would wait a second at the end of each: such a program ends without it.
func child() {
	code := run()
	if os.Getenv("GORACE") == "" {
		syscall.Exit(code)
	}
	os.Exit(code)
}

// TestScripts runs every command as its user does. Each file in testdata/script tells one story.
func TestScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", root)
			env.Setenv("NO_COLOR", "1")
			env.Setenv("LANG", "C.UTF-8")
			env.Setenv("USER_ID", strconv.Itoa(os.Geteuid()))
			env.Setenv("GORACE", noExitSleep)
			env.Values[vaultKey{}] = &vaultServer{}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "confine":
				return process.CanConfine() == nil, nil
			case "cgroup":
				_, err := cgroup.Open()
				return err == nil, nil
			}
			return false, fmt.Errorf("the condition %q is unknown", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"githubapi": githubapi,
			"gitrepo":   gitrepo,
			"registry":  registry,
			"image":     image,
			"expand":    expand,
			"valid":     valid,
			"pull":      pull,
			"signal":    signalBackground,
			"vault":     vault,
		},
	})
}
