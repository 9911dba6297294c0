//go:build unix

package sandbox_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/sandbox"
)

// The variables that tell a test binary that is started again about the SSH server.
const sshAddress, sshKey, sshKnownHosts = "RUNG_TEST_SSH_ADDRESS", "RUNG_TEST_SSH_KEY", "RUNG_TEST_SSH_KNOWN_HOSTS"

// hosts are the machines behind SSH, by address.
var hosts sync.Map

// overSSH is the machine of the test, as one behind SSH; nil where the test has no SSH server.
func overSSH() host.Host {
	address := os.Getenv(sshAddress)
	if address == "" {
		return nil
	}
	if known, is := hosts.Load(address); is {
		return known.(host.Host)
	}
	h, err := ssh.New(context.Background(), ssh.Options{
		Address: address, Key: os.Getenv(sshKey), KnownHosts: []string{os.Getenv(sshKnownHosts)}, Config: []string{},
	})
	if err != nil {
		panic(err)
	}
	hosts.Store(address, h)
	return h
}

// startSSHD makes this machine one behind SSH.
func startSSHD(t *testing.T) {
	s := hosttest.StartSSHD(t)
	t.Setenv(sshAddress, s.Address)
	t.Setenv(sshKey, s.Key)
	t.Setenv(sshKnownHosts, s.KnownHosts)
}

func TestConformanceThroughAnEngineOverSSH(t *testing.T) {
	enginetest.Runsc(t)
	enginetest.Busybox(t)
	startSSHD(t)
	t.Setenv(wayVariable, string(sandbox.ThroughEngine))
	executortest.Run(t, level())
}

func TestAMachineBehindSSHNeedsAnEngineForSandboxes(t *testing.T) {
	startSSHD(t)
	_, err := sandbox.New(t.Context(), executor.Setup{Host: overSSH(), State: t.TempDir()}, sandbox.Options{Way: sandbox.Directly})
	if err == nil || !strings.Contains(err.Error(), "install an engine with the runtime runsc on ssh:") {
		t.Errorf("the refusal is %v", err)
	}
}
