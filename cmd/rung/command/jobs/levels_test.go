//go:build unix

package jobs_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/cmd/rung/command/jobs"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/manager/config"
)

func TestAnUnknownHostIsRefusedAndNotRecorded(t *testing.T) {
	s := hosttest.StartSSHD(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	user, address, _ := strings.Cut(s.Address, "@")
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r := &config.Runner{Executor: "ssh", SSH: &config.SSH{Host: name, Port: port, User: user, IdentityFile: s.Key}}
	open := jobs.Open(&command.Program{Getenv: os.Getenv, Env: os.Environ()})
	setup := executor.Setup{State: t.TempDir(), Program: func(string, string) (string, error) { return "", errors.New("there is none") }}
	opened, err := open(t.Context(), r, executor.None, setup)
	if err == nil {
		_ = opened.Close()
		t.Error("the host is accepted")
	}
	if err == nil || !strings.Contains(err.Error(), "ssh-keyscan -p "+port+" "+name) {
		t.Errorf("the error does not say how to add the key: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, ".ssh", "known_hosts")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the key was recorded")
	}
	r.SSH.KnownHostsFile = s.KnownHosts
	if opened, err = open(t.Context(), r, executor.None, setup); err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}
