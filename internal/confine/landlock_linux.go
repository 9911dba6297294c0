package confine

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileRights are the rights to files that are withheld, by the version of Landlock's interface that brought them. Rights are bits in the order
// in which they came.
var fileRights = []struct {
	abi    int
	newest uint64
}{
	{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {2, unix.LANDLOCK_ACCESS_FS_REFER}, {1, unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
}

const (
	// readingRights are those that a process has in all of its view.
	readingRights uint64 = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// entryRights are those that only folders have: a rule for a file may not name them.
	entryRights uint64 = unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
)

// ABI is the version of Landlock's interface that the kernel has; 0 is none.
var ABI = sync.OnceValue(func() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
})

// rightsOf are the rights to files that a version of the interface knows.
func rightsOf(abi int) uint64 {
	for _, known := range fileRights {
		if abi >= known.abi {
			return known.newest<<1 - 1
		}
	}
	return 0
}

// landlock keeps the thread, and what it starts, from writing anywhere else than the view says, from changing any mount, and from reaching the
// abstract sockets of others. Signals are not scoped: the namespace of processes does that, and the threads of the init are domains of their
// own to Landlock.
func (c *container) landlock() error {
	rights := rightsOf(c.ABI)
	handled := unix.LandlockRulesetAttr{Handled_access_fs: rights}
	size := unsafe.Sizeof(handled.Handled_access_fs) // an older kernel knows no more of it
	if c.ABI >= ScopeABI {
		handled.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size = unsafe.Offsetof(handled.Scoped) + unsafe.Sizeof(handled.Scoped)
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), size, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(ruleset))
	if err := allow(int(ruleset), "/", readingRights); err != nil {
		return err
	}
	writable := []string{"/dev"}
	for _, p := range c.View.Paths {
		if p.Writable {
			writable = append(writable, p.At)
		}
	}
	for _, path := range writable {
		if err := allow(int(ruleset), path, rights); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// allow adds a rule to a ruleset: the rights to what is at the path and below it, as far as it can have them.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &^= entryRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
