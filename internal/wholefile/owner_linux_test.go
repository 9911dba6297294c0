package wholefile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/rungci/rung/internal/wholefile"
)

func TestAnotherGroupMayNotReadAnEditedFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	const user, group, own = 1234, 4242, 100
	for _, err := range []error{os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o640), os.Chown(path, 0, group), os.Chown(dir, user, own), os.Chmod(filepath.Dir(dir), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := as(user, own, func() error { return wholefile.Edit(path, 0o600, 0o640, []byte("text")) }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != user || stat.Gid != own || info.Mode().Perm() != 0o600 {
		t.Errorf("it belongs to %d:%d, with the mode %o", stat.Uid, stat.Gid, info.Mode().Perm())
	}
}

// as does something to files as a user and a group do it.
func as(user, group int, do func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
		if err := syscall.Setfsgid(group); err != nil {
			ended <- err
			return
		}
		if err := syscall.Setfsuid(user); err != nil {
			ended <- err
			return
		}
		ended <- do()
	}()
	return <-ended
}
