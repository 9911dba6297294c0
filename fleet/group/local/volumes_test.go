//go:build linux

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/local"
)

// volume makes a volume, which the test deletes.
func (f *fleet) volume(request string) group.Volume {
	f.t.Helper()
	v, err := f.CreateVolume(f.t.Context(), group.VolumeRequest{ID: request, Size: 1 << 20})
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

func (f *fleet) attach(v group.Volume, instance string, epoch uint64) string {
	f.t.Helper()
	folder, err := f.AttachVolume(f.t.Context(), group.Attachment{Volume: v.ID, Instance: instance, Epoch: epoch})
	if err != nil {
		f.t.Fatal(err)
	}
	return folder
}

func (f *fleet) detach(v group.Volume, instance string, epoch uint64) error {
	f.t.Helper()
	return f.DetachVolume(f.t.Context(), group.Attachment{Volume: v.ID, Instance: instance, Epoch: epoch})
}

func TestAVolumeMovesFromMachineToMachine(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 2, Network: local.NetworkNone})
	one, two := f.create(group.Request{ID: "one", Count: 1}), f.create(group.Request{ID: "two", Count: 1})
	a, b := f.connect(one), f.connect(two)
	mine, others := f.volume("mine"), f.volume("others")
	folder := f.attach(mine, one, 1)
	hosttest.Sh(t, a, `cd "$1" && mkdir -p x/y && echo secret >x/y/file && ln -s /etc/passwd link && chmod 4755 x/y/file && test -O x/y/file`, folder)
	if got := hosttest.Sh(t, b, `ls -A /volumes`); got != "" {
		t.Errorf("the other machine has %q", got)
	}

	t.Run("a process that uses it keeps it there", func(t *testing.T) {
		p, err := a.Exec(t.Context(), &host.Command{Args: []string{"sleep", "600"}, Dir: folder})
		if err != nil {
			t.Fatal(err)
		}
		f.eventually("it is used", func() bool { return f.detach(mine, one, 1) != nil })
		if err := f.detach(mine, one, 1); !errors.Is(err, group.ErrTransient) || !strings.Contains(err.Error(), "uses the volume") {
			t.Errorf("it is detached from under a process: %v", err)
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		_, _ = p.Wait()
		f.eventually("it is detached", func() bool { return f.detach(mine, one, 1) == nil })
	})

	f.attach(mine, two, 2)
	if got := hosttest.Sh(t, b, `cd "$1" && test -O x/y/file && test -O . && echo more >>x/y/file && cat x/y/file`, folder); got != "secret\nmore" {
		t.Errorf("the other machine finds %q", got)
	}
	if !fails(t, a, `cat "$1"/x/y/file 2>/dev/null`, folder) {
		t.Error("the first machine still reaches it")
	}
	if info, err := os.Lstat("/etc/passwd"); err != nil || ownerOf(info) != 0 {
		t.Errorf("a link has led the group to another file: %v, %v", info, err)
	}

	t.Run("a machine cannot put anything in its place", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("without root all machines are one user, who owns the folder of volumes")
		}
		if !fails(t, b, `mv "$1" /volumes/other 2>/dev/null || ln -s /etc "$2" 2>/dev/null || mkdir "$2" 2>/dev/null`, folder, "/volumes/"+others.ID) {
			t.Error("it can")
		}
	})
	t.Run("what is planted for another volume is not taken for it", func(t *testing.T) {
		planted := filepath.Join(f.state, "machines", two, "volumes", others.ID)
		if err := os.MkdirAll(planted, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(planted, "hook"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.detach(others, two, 1); err != nil {
			t.Fatal(err)
		}
		if got := hosttest.Sh(t, b, `ls -A "$1"`, f.attach(others, two, 2)); got != "" {
			t.Errorf("it has %q", got)
		}
	})

	for _, v := range []group.Volume{mine, others} {
		if err := f.detach(v, two, 3); err != nil {
			t.Error(err)
		}
		if err := f.DeleteVolume(t.Context(), v.ID); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(f.state, "machines.volumes")); len(left) > 0 {
		t.Errorf("what is left: %v", left)
	}
}

func TestAVolumeOutlivesItsMachineAndTheGroup(t *testing.T) {
	state := t.TempDir()
	f := open(t, state, local.Options{MaxSize: 1, Network: local.NetworkNone})
	v := f.volume("v")
	one := f.create(group.Request{ID: "one", Count: 1})
	hosttest.Sh(t, f.connect(one), `echo kept >"$1"/file`, f.attach(v, one, 1))
	if _, err := f.Delete(t.Context(), []string{one}); err != nil {
		t.Fatal(err)
	}
	f.eventually("it is gone", func() bool { return f.look(one).State == group.StateDeleted })
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.over = true

	f = open(t, state, local.Options{MaxSize: 1, Network: local.NetworkNone})
	all, err := f.Volumes(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != v.ID || all[0].Instance != "" {
		t.Fatalf("%+v, %v", all, err)
	}
	two := f.create(group.Request{ID: "two", Count: 1})
	if got := hosttest.Sh(t, f.connect(two), `cat "$1"/file`, f.attach(v, two, 2)); got != "kept" {
		t.Errorf("it has %q", got)
	}
}

func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
