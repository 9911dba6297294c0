package discard

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// unmount unmounts what is mounted at or below a path, the newest first.
func unmount(path string) error {
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil // there is nothing
	}
	path = filepath.Join(above, filepath.Base(path))
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // nor is there /proc
	}
	var at []string
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := escapes.Replace(fields[4]); point == path || strings.HasPrefix(point, path+"/") {
			at = append(at, point)
		}
	}
	for i := len(at) - 1; i >= 0; i-- {
		if err := unix.Unmount(at[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("something is mounted at %s, and cannot be unmounted: %w; unmount it first", at[i], err)
		}
	}
	return nil
}

// escapes are those of /proc/self/mountinfo (proc_pid_mountinfo(5)).
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// loosen lets a file or folder be changed and removed that `chattr` has made immutable, or growing only.
func loosen(name string) {
	const immutable, appendOnly = 0x10, 0x20 // FS_IMMUTABLE_FL and FS_APPEND_FL of linux/fs.h
	const stuck = immutable | appendOnly
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&stuck != 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^stuck)
	}
}
