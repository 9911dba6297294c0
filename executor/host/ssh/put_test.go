//go:build unix

package ssh_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
)

func program(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPut(t *testing.T) {
	const text = "#!/bin/sh\necho fine\n"
	t.Run("keeps programs in the user's cache folder, by their digest", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		path, err := connect(t, options(s)).Put(t.Context(), program(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if rel, err := filepath.Rel(filepath.Join(s.Home, ".cache", "rung", "programs"), path); err != nil || len(filepath.Dir(rel)) != 64 {
			t.Errorf("it is at %s", path)
		}
		for dir := filepath.Dir(path); len(dir) > len(s.Home); dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", dir, info.Mode(), err)
			}
		}
	})
	t.Run("replaces a copy that is damaged", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		h := connect(t, options(s))
		file := program(t, text)
		path, err := h.Put(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		for _, damage := range []func() error{
			func() error { return os.WriteFile(path, []byte("#!/bin/sh\necho evil\n"), 0o755) },
			func() error { return os.Truncate(path, 3) },
			func() error { return os.Chmod(path, 0o600) },
			func() error { return os.RemoveAll(filepath.Dir(path)) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			again, err := h.Put(t.Context(), file)
			if err != nil || again != path {
				t.Fatal(again, err)
			}
			if out, err := run(t, h, path); out != "fine\n" || err != nil {
				t.Errorf("%q, %v", out, err)
			}
		}
		left, err := filepath.Glob(filepath.Join(s.Home, ".cache", "rung", "programs", ".*"))
		if err != nil || len(left) != 0 {
			t.Errorf("%q is left, %v", left, err)
		}
	})
	t.Run("uses a folder for temporary files if the home is read-only or missing", func(t *testing.T) {
		for name, home := range map[string]string{"missing": "/proc/none", "read-only": "/proc/self"} {
			temp := t.TempDir()
			s := hosttest.StartSSHD(t, "SetEnv HOME="+home+" TMPDIR="+temp)
			h := connect(t, options(s))
			path, err := h.Put(t.Context(), program(t, text))
			if err != nil || !strings.HasPrefix(path, temp+"/rung-programs-") {
				t.Fatalf("%s: %q, %v", name, path, err)
			}
			if out, err := run(t, h, path); out != "fine\n" || err != nil {
				t.Errorf("%s: %q, %v", name, out, err)
			}
		}
	})
	t.Run("does not use a folder that others may write to", func(t *testing.T) {
		temp := t.TempDir()
		s := hosttest.StartSSHD(t, "SetEnv HOME=/proc/none TMPDIR="+temp)
		h := connect(t, options(s))
		planted := filepath.Join(temp, "rung-programs-"+strings.TrimSpace(hosttest.Sh(t, h, "id -u")))
		if err := errors.Join(os.Mkdir(planted, 0o700), os.Chmod(planted, 0o777)); err != nil {
			t.Fatal(err)
		}
		if path, err := h.Put(t.Context(), program(t, text)); err == nil || !strings.Contains(err.Error(), planted+" does not belong to this user alone") {
			t.Errorf("%q, %v", path, err)
		}
		if err := errors.Join(os.Remove(planted), os.Symlink(t.TempDir(), planted)); err != nil {
			t.Fatal(err)
		}
		if path, err := h.Put(t.Context(), program(t, text)); err == nil {
			t.Errorf("it is at %s", path)
		}
	})
	t.Run("names a disk that is full already", func(t *testing.T) {
		disk := hosttest.SmallDisk(t)
		folder := filepath.Join(disk, ".cache", "rung", "programs")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(disk, "full"), make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("the disk is large")
		}
		h := connect(t, options(hosttest.StartSSHD(t, "SetEnv HOME="+disk+" TMPDIR="+disk)))
		if _, err := h.Put(t.Context(), program(t, text)); !errors.Is(err, host.ErrNoSpace) || !strings.Contains(err.Error(), "cannot write into "+folder) {
			t.Error(err)
		}
	})
	t.Run("names a full disk, and leaves nothing there", func(t *testing.T) {
		disk := hosttest.SmallDisk(t)
		s := hosttest.StartSSHD(t, "SetEnv HOME="+disk)
		h := connect(t, options(s))
		if _, err := h.Put(t.Context(), program(t, text+strings.Repeat("# long\n", 20_000))); !errors.Is(err, host.ErrNoSpace) || !strings.Contains(err.Error(), disk) && !strings.Contains(err.Error(), "No space left") {
			t.Error(err)
		}
		_ = filepath.WalkDir(filepath.Join(disk, ".cache"), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				t.Errorf("%s is left, %v", path, err)
			}
			return nil
		})
	})
}

func TestFilesPutTheirProgramAgainIfItIsGone(t *testing.T) {
	s := hosttest.StartSSHD(t)
	h := connect(t, options(s))
	for range 2 {
		if err := h.Files().MkdirAll(t.Context(), filepath.Join(s.Home, "a", "b"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(s.Home, ".cache")); err != nil {
			t.Fatal(err)
		}
	}
}
