//go:build unix

package disk_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/manager/disk"
)

func TestMain(m *testing.M) {
	code := m.Run()
	executortest.RemoveProgram()
	os.Exit(code)
}

// overSSH is level none on a machine behind SSH, and a function that lets a job have the kept project of a number there.
func overSSH(t *testing.T) (level *none.Executor, use func(number int) (done func())) {
	t.Helper()
	server := hosttest.StartSSHD(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	there, err := ssh.New(t.Context(), ssh.Options{
		Address: server.Address, Key: server.Key, KnownHosts: []string{server.KnownHosts},
		Program: func(host.Platform) (string, error) { return program, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "builds")
	level, err = none.New(t.Context(), executor.Setup{
		Host: there, Program: func(string, string) (string, error) { return program, nil }, State: filepath.Join(dir, "state"), Uses: usage.New(filepath.Join(dir, "uses")),
	}, none.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := level.Close(); err != nil {
			t.Error(err)
		}
		_ = there.Close()
	})
	return level, func(number int) func() {
		job := &executor.Job{ID: fmt.Sprintf("job-%d", number), ProjectName: "shop", Root: root, KeepProject: fmt.Sprintf("shop-%d", number)}
		env, err := level.Prepare(t.Context(), job, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(env.Layout().Project, "file"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := env.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestStoredOverSSH(t *testing.T) {
	level, use := overSSH(t)
	storertest.Run(t, storertest.Case{
		Storer: level, Kind: executor.StoredProject, Use: use,
		Foreign: func() (executor.Stored, func() bool) {
			folder := filepath.Join(t.TempDir(), "other.0")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			return executor.Stored{Kind: executor.StoredProject, Place: "ssh", ID: folder}, func() bool {
				_, err := os.Stat(folder)
				return err == nil
			}
		},
	})
}

func TestAMachineBehindSSHIsKeptWithinItsLimits(t *testing.T) {
	level, use := overSSH(t)
	limits := disk.Limits{Budget: 3 << 19} // one and a half projects
	options := disk.Options{Limits: func() disk.Limits { return limits }, Storers: func() []executor.Storer { return []executor.Storer{level} }, Log: slog.New(slog.DiscardHandler)}
	d := disk.New(options)
	use(1)()
	done := use(2)
	if !d.Room(t.Context()) {
		t.Error("it has no room:", d.Status().Waiting)
	}
	stock, err := level.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 || !strings.HasSuffix(stock.Things[0].ID, "shop-2.0") {
		t.Fatalf("what was used last is not what is left: %+v %v", stock, err)
	}
	done()
	if s := d.Status(); s.Removed[executor.StoredProject].Things != 1 || len(s.Free) == 0 {
		t.Errorf("the status is %+v", s)
	}
	limits = disk.Limits{KeepFree: 1 << 60}
	if d.Room(t.Context()) || !strings.Contains(d.Status().Waiting, "disk.keep_free") {
		t.Error("a disk without space has room")
	}
	if stock, err := level.Stored(t.Context()); err != nil || len(stock.Things) > 0 {
		t.Errorf("%+v %v is left on a disk without space", stock, err)
	}
	options.Here = true
	if here := disk.New(options); !here.Room(t.Context()) || len(here.Status().Free) > 0 {
		t.Error("the disk of another machine counts for this one")
	}
}
