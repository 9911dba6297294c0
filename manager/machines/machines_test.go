//go:build unix

package machines_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/machines"
)

func TestMain(m *testing.M) {
	code := m.Run()
	executortest.RemoveProgram()
	os.Exit(code)
}

// slow is a level that takes its time to sweep and to be closed.
type slow struct {
	executor.Executor
	sweeping      chan struct{}
	swept, closed atomic.Bool
}

func (s *slow) Sweep(ctx context.Context) error {
	close(s.sweeping)
	<-ctx.Done()
	time.Sleep(50 * time.Millisecond)
	s.swept.Store(true)
	return context.Cause(ctx)
}

func (s *slow) Close() error {
	time.Sleep(50 * time.Millisecond)
	s.closed.Store(true)
	return nil
}

func TestCloseWaitsForLevelsThatNobodyUsesAnyMore(t *testing.T) {
	adopted := make(chan struct{})
	close(adopted)
	level := &slow{sweeping: make(chan struct{})}
	o := machines.New(machines.Options{
		Connect: func(context.Context, provider.Access) (host.Host, error) { return local.New(), nil },
		Open:    func(context.Context, executor.Level, executor.Setup) (executor.Executor, error) { return level, nil },
		Setup:   executor.Setup{State: t.TempDir()}, Adopted: adopted,
		Note: func(err error) { t.Error(err) },
	})
	l, err := o.Level(t.Context(), &provider.Machine{Name: "builder-1", Life: executor.NewLife(), Fresh: true}, executor.None)
	if err != nil {
		t.Fatal(err)
	}
	<-level.sweeping
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.Close()
	if !level.swept.Load() || !level.closed.Load() {
		t.Errorf("sweeping goes on: %v; closing goes on: %v", !level.swept.Load(), !level.closed.Load())
	}
}

func TestAFullMachineIsOfNoUseToAJob(t *testing.T) {
	server := hosttest.StartSSHD(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	limits := disk.Limits{Budget: 1} // of which a kept project takes more
	o := machines.New(machines.Options{
		Connect: func(ctx context.Context, _ provider.Access) (host.Host, error) {
			return ssh.New(ctx, ssh.Options{
				Address: server.Address, Key: server.Key, KnownHosts: []string{server.KnownHosts},
				Program: func(host.Platform) (string, error) { return program, nil },
			})
		},
		Open: func(ctx context.Context, _ executor.Level, setup executor.Setup) (executor.Executor, error) {
			return none.New(ctx, setup, none.Options{})
		},
		Setup: executor.Setup{Program: func(string, string) (string, error) { return program, nil }, State: t.TempDir()}, Limits: func() disk.Limits { return limits },
		Note: func(err error) { t.Error(err) },
	})
	defer o.Close()
	open := func(fresh bool) *machines.Level {
		t.Helper()
		m := &provider.Machine{Name: "builder-1", Life: executor.NewLife(), Fresh: fresh}
		l, err := o.Level(t.Context(), m, executor.None)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open(false)
	defer l.Close()
	if err := l.Room(t.Context()); err != nil {
		t.Error("before the first job:", err)
	}
	env, err := l.Prepare(t.Context(), &executor.Job{ID: "1", ProjectName: "shop", Root: filepath.Join(t.TempDir(), "builds"), KeepProject: "shop-1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := open(false)
	defer other.Close()
	limits.Budget++ // with other limits it is looked at once
	if err := other.Room(t.Context()); err == nil || !strings.Contains(err.Error(), "disk.budget") {
		t.Error("beside a job that takes all that there is:", err)
	}
	if s := o.Disks()["builder-1"]; s == nil || s.Budget != limits.Budget || s.Waiting == "" {
		t.Errorf("it says that the disk is %+v", s)
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
	limits.Budget++
	if err := other.Room(t.Context()); err != nil {
		t.Error("when what the job has left can be removed:", err)
	}
	limits = disk.Limits{KeepFree: 1 << 60}
	if err := other.Room(t.Context()); err == nil || !strings.Contains(err.Error(), "disk.keep_free") {
		t.Error("on a full disk:", err)
	}
	own := open(true)
	defer own.Close()
	if err := own.Room(t.Context()); err != nil {
		t.Error("on a machine of its own:", err)
	}
}

func TestAMachineThatFailsJobsInARowIsOfNoUseToOthers(t *testing.T) {
	level := &slow{sweeping: make(chan struct{})}
	o := machines.New(machines.Options{
		Connect: func(context.Context, provider.Access) (host.Host, error) { return local.New(), nil },
		Open:    func(context.Context, executor.Level, executor.Setup) (executor.Executor, error) { return level, nil },
		Setup:   executor.Setup{State: t.TempDir()},
	})
	defer o.Close()
	full := errors.New("mkdir /tmp/rung: no space left on device")
	for i, job := range []struct {
		failed error
		fault  string
	}{
		{full, ""}, {nil, ""}, {full, ""}, {full, "2 jobs in a row could not run there, and not by their own fault: mkdir /tmp/rung: no space left on device"},
	} {
		l, err := o.Level(t.Context(), &provider.Machine{Name: "builder-1", Life: executor.NewLife(), Fresh: true}, executor.None) // its level is closed after each job
		if err != nil {
			t.Fatal(err)
		}
		l.Failed(job.failed)
		if got := l.Fault(); got != job.fault {
			t.Errorf("after job %d: %q", i+1, got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
