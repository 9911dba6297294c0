//go:build linux

package cgroup_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
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
		Program: func(host.Platform) (string, error) { return executortest.Program() },
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

func TestConformanceOverSSH(t *testing.T) {
	able(t)
	startSSHD(t)
	executortest.Run(t, level())
}
