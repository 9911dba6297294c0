package hosttest

import (
	"syscall"
	"testing"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// SmallDisk returns a folder on a disk of 64 KiB. It skips the test if this user may not mount one.
func SmallDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("rung-test", dir, "tmpfs", 0, "size=64k,mode=0755"); err != nil {
		enginetest.Skip(t, "the right to mount a small disk ("+err.Error()+")")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
