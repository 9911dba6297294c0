package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// delegated reads the mark that systemd puts on the group of a unit with Delegate=yes (systemd's docs/CGROUP_DELEGATION.md).
func delegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// isBusy reports whether a group is in use: it has processes, or others in it.
func isBusy(err error) bool { return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) }

// isRemoved reports whether a group was removed while its files were written.
func isRemoved(err error) bool { return errors.Is(err, unix.ENODEV) }

// isGone reports whether a process has ended.
func isGone(err error) bool { return errors.Is(err, unix.ESRCH) }

// removeGroup removes an empty group. The files in its folder are the kernel's.
func removeGroup(dir string) error { return unix.Rmdir(dir) }

// Disk is the number of the disk, not of its part, that has the files of a folder, as "8:0". The error says that they are on no disk: they
// are in memory, or on a file system over others.
func Disk(folder string) (string, error) {
	var found unix.Stat_t
	if err := unix.Stat(folder, &found); err != nil {
		return "", &os.PathError{Op: "stat", Path: folder, Err: err}
	}
	number := fmt.Sprintf("%d:%d", unix.Major(found.Dev), unix.Minor(found.Dev))
	device, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("the files in %s are on no disk that has limits; put them on one, or leave the limit out", folder)
	}
	if _, err := os.Stat(filepath.Join(device, "partition")); err != nil {
		return number, nil // it is the disk
	}
	whole, err := os.ReadFile(filepath.Join(filepath.Dir(device), "dev"))
	return strings.TrimSpace(string(whole)), err
}
