package confine

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRightsAreThoseThatTheKernelKnows(t *testing.T) {
	t.Parallel()
	const first = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	const refer, truncate, ioctl uint64 = unix.LANDLOCK_ACCESS_FS_REFER, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	for abi, want := range []uint64{0, first, first | refer, first | refer | truncate, first | refer | truncate, first | refer | truncate | ioctl, first | refer | truncate | ioctl} {
		if got := rightsOf(abi); got != want {
			t.Errorf("version %d: %#x, want %#x", abi, got, want)
		}
	}
}
