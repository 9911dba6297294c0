package none

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
)

// serving is the process of the step-runner with a socket, 0 where there is none.
func serving(socket string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if args, err := os.ReadFile(file); err == nil && bytes.Contains(args, []byte("\x00--socket\x00"+socket+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

// TestAStepRunnerThatItsJobHasStoppedIsKilled has one that is nobody's child here, as after a restart or on another host.
func TestAStepRunnerThatItsJobHasStoppedIsKilled(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(t *testing.T) host.Host{
		"after a restart": func(*testing.T) host.Host { return nil },
		"over SSH": func(t *testing.T) host.Host {
			s := hosttest.StartSSHD(t)
			h, err := ssh.New(t.Context(), ssh.Options{
				Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{},
				Program: func(host.Platform) (string, error) { return executortest.Program() },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = h.Close() })
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := level()
			l.Host = on(t)
			e, err := l.New(t.TempDir(), executor.Lease{})
			if err != nil {
				t.Fatal(err)
			}
			env, err := e.Prepare(t.Context(), &executor.Job{ID: "stopped", ProjectName: "shop"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := env.(*environment).runner
			pid := serving(r.socket)
			adopted := r.executor.runnerIn(r.dir, nil)
			if l.Host == nil {
				conn, err := r.executor.host.Dial(t.Context(), "unix", r.socket)
				if err != nil {
					t.Fatal(err)
				}
				go adopted.watch(conn)
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); pid == 0 || err != nil {
				t.Fatal(pid, err)
			}
			if l.Host == nil {
				if _, err := adopted.close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := env.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if left := serving(r.socket); left != 0 {
				t.Errorf("the process %d is left", left)
				_ = syscall.Kill(left, syscall.SIGKILL)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
