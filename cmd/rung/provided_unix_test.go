//go:build unix

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
)

// TestProvidedScripts runs the stories of testdata/provided on the host of a list, which is this machine behind SSH. Only the host's entry says where
// its engine is.
func TestProvidedScripts(t *testing.T) {
	engine := enginetest.Host(t)
	enginetest.Busybox(t)
	behind := hosttest.StartSSHD(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/provided", RequireExplicitExec: true, Cmds: commands,
		Setup: func(env *testscript.Env) error {
			prepare(env, program)
			env.Setenv("ENGINE", engine)
			env.Setenv("SSH_ADDRESS", behind.Address)
			env.Setenv("SSH_KEY", behind.Key)
			env.Setenv("SSH_KNOWN_HOSTS", behind.KnownHosts)
			return nil
		},
	})
}
