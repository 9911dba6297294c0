//go:build unix

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
)

// TestProvidedScripts runs the stories of testdata/provided on the host of a list, which is this machine behind SSH. Only the host's entry says where
// its engine is.
func TestProvidedScripts(t *testing.T) {
	engine := enginetest.Host(t)
	enginetest.Busybox(t)
	behind := hosttest.StartSSHD(t)
	runStories(t, testscript.Params{Dir: "testdata/provided"}, map[string]string{
		"ENGINE": engine, "SSH_ADDRESS": behind.Address, "SSH_KEY": behind.Key, "SSH_KNOWN_HOSTS": behind.KnownHosts,
	})
}
