//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
)

// TestFleetUpgradeScript runs the story of a fleet whose plugin is upgraded, on this machine behind SSH.
func TestFleetUpgradeScript(t *testing.T) {
	behind := hosttest.StartSSHD(t)
	user, address, _ := strings.Cut(behind.Address, "@")
	runStories(t, testscript.Params{Files: []string{"testdata/fleet/upgrade.txtar"}}, map[string]string{"SSH_USER": user, "SSH_ADDRESS": address, "SSH_KEY": behind.Key})
}

// TestProvidedScripts runs the stories of testdata/provided on the host of a list, which is this machine behind SSH. Only the host's entry says where
// its engine is.
func TestProvidedScripts(t *testing.T) {
	engine := enginetest.Host(t)
	enginetest.Busybox(t)
	behind := hosttest.StartSSHD(t)
	runStories(t, testscript.Params{Dir: "testdata/provided", Setup: foldersIn}, map[string]string{
		"ENGINE": engine, "SSH_ADDRESS": behind.Address, "SSH_KEY": behind.Key, "SSH_KNOWN_HOSTS": behind.KnownHosts,
	})
}
