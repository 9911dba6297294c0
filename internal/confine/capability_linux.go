package confine

import (
	"errors"

	"golang.org/x/sys/unix"
)

// initCapabilities are what an init has in its user namespace while it makes the view.
var initCapabilities = append([]uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE}, rootsCapabilities...)

// rootsCapabilities stay root's in its namespace. They are about root's own files, with which it could do the same as their owner; programs
// of root expect to get past their permissions.
var rootsCapabilities = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// dropCapabilities gives up what the thread has, so that no program that it executes gets any of it.
func dropCapabilities(uid int) error {
	keep := [64]bool{}
	var kept [2]unix.CapUserData
	if uid == 0 {
		for _, capability := range rootsCapabilities {
			keep[capability] = true
			kept[0].Permitted |= 1 << capability
		}
	}
	kept[0].Effective = kept[0].Permitted
	for capability := range uintptr(len(keep)) {
		if keep[capability] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &kept[0])
}
