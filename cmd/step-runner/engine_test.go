package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/cmd/internal/commandtest"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestEngineScripts runs the stories of testdata/engine, which need containers. Their image is rung-test-busybox:1.
func TestEngineScripts(t *testing.T) {
	host := enginetest.Host(t)
	enginetest.Busybox(t)
	program, err := executortest.Program() // which runs in every container
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/engine", RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DOCKER_HOST", host)
			env.Setenv("PATH", filepath.Dir(program)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("NO_COLOR", "1")
			env.Setenv("LANG", "C.UTF-8")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": commandtest.Exits, "registry": registry, "image": image, "expand": expand},
	})
}
