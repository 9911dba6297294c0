package discard_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/internal/discard"
)

func TestWhatIsMountedStays(t *testing.T) {
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	outside, dir := t.TempDir(), filepath.Join(t.TempDir(), "dir with a blank")
	below := filepath.Join(dir, "a", "b")
	err := errors.Join(os.MkdirAll(below, 0o700), os.WriteFile(filepath.Join(outside, "file"), nil, 0o600))
	for range 2 { // one upon the other
		err = errors.Join(err, unix.Mount(outside, below, "", unix.MS_BIND, ""))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := discard.All(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestFilesThatMayNotBeChangedAreRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	dir := filepath.Join(t.TempDir(), "dir")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "file"), dir} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x10); err != nil {
			t.Log("this file system has no such files:", err)
		}
		_ = f.Close()
	}
	if err := discard.All(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
