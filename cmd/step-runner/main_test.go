package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/cmd/internal/commandtest"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/internal/process"
)

func TestMain(m *testing.M) { commandtest.Main(m, "step-runner", run) }

// noExitSleep tells the race detector not to wait before a program ends, a second by default. Scripts start hundreds of them.
const noExitSleep = "atexit_sleep_ms=0"

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
			"exits":     commandtest.Exits,
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
