//go:build linux

package local_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/local"
)

func TestAJobRunsOnAMachine(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone})
	id := f.create(group.Request{ID: "r", Count: 1})
	info, err := f.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	program := func(string, string) (string, error) { return executortest.Program() }
	h, err := ssh.New(t.Context(), ssh.Options{
		Address: info.Username + "@" + info.Addr(false), KeyText: info.Key, Fingerprint: info.HostKeys[0], Config: []string{},
		Program: func(p host.Platform) (string, error) { return program(p.OS, p.Arch) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	level, err := none.New(t.Context(), executor.Setup{Host: h, Program: program, State: t.TempDir()}, none.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer level.Close()
	env, err := level.Prepare(t.Context(), &executor.Job{ID: "1", ProjectName: "project"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, failure := executortest.Script(t, env, "hostname; id -un")
	if failure != nil || strings.TrimSpace(log) != id+"\nrunner" {
		t.Errorf("the job ends with %v, and says %q", failure, log)
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
