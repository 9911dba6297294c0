package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"step-runner": main})
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
			env.Values[vaultKey{}] = &vaultServer{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"githubapi": githubapi,
			"gitrepo":   gitrepo,
			"registry":  registry,
			"pull":      pull,
			"signal":    signalBackground,
			"vault":     vault,
		},
	})
}
