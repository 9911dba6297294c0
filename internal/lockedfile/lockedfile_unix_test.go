//go:build unix

package lockedfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWhatIsDiscarded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"what does not exist":      {func(*testing.T, string) {}, fs.ErrNotExist},
		"a file":                   {func(t *testing.T, path string) { create(t, path, 0o600) }, nil},
		"a file for reading only":  {func(t *testing.T, path string) { create(t, path, 0o400) }, nil},
		"a link to a locked file":  {func(t *testing.T, path string) { lock(t, path+".of"); link(t, path+".of", path) }, nil},
		"a locked file":            {lock, ErrInUse},
		"a file that nobody reads": {func(t *testing.T, path string) { create(t, path, 0) }, map[bool]error{false: ErrInUse}[os.Geteuid() == 0]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file")
			c.make(t, path)
			if err := Discard(path); !errors.Is(err, c.want) {
				t.Errorf("error %v, not %v", err, c.want)
			}
			if _, err := os.Lstat(path); (err == nil) != errors.Is(c.want, ErrInUse) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// NFS locks for one process only what that can write to, and answers anything else with EBADF.
func TestALockNeedsAFileThatCanBeWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	create(t, path, 0o600)
	file, err := openToLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("x"); err != nil {
		t.Error(err)
	}
	for of, want := range map[syscall.Errno]error{syscall.EBADF: ErrInUse, syscall.ENOLCK: ErrInUse, syscall.EIO: ErrInUse, syscall.ENOTSUP: nil, syscall.ENOSYS: nil} {
		if err := unlessUnsupported(&os.PathError{Op: "locking", Path: path, Err: of}); !errors.Is(err, want) {
			t.Errorf("%v: %v, not %v", of, err, want)
		}
	}
}

func create(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func lock(t *testing.T, path string) {
	t.Helper()
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Close(file) })
}
