//go:build unix

package none

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

// overSSH is the machine of the test, as one behind SSH; nil where the test has no SSH server.
var overSSH = sync.OnceValue(func() host.Host {
	address := os.Getenv(sshAddress)
	if address == "" {
		return nil
	}
	h, err := ssh.New(context.Background(), ssh.Options{
		Address: address, Key: os.Getenv(sshKey), KnownHosts: []string{os.Getenv(sshKnownHosts)}, Config: []string{},
		Program: func(host.Platform) (string, error) { return executortest.Program() },
	})
	if err != nil {
		panic(err)
	}
	return h
})

func TestConformanceOverSSH(t *testing.T) {
	s := hosttest.StartSSHD(t)
	t.Setenv(sshAddress, s.Address)
	t.Setenv(sshKey, s.Key)
	t.Setenv(sshKnownHosts, s.KnownHosts)
	l := level()
	if l.Host = overSSH(); l.Host == nil {
		t.Fatal("there is no SSH server")
	}
	executortest.Run(t, l)
}
