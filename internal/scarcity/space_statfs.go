//go:build linux || darwin || freebsd

package scarcity

import (
	"os"
	"syscall"
)

func isFull(dir string) bool {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil || disk.Blocks == 0 {
		return false
	}
	free := int64(disk.Bavail) //nolint:unconvert // its type differs between systems
	if os.Geteuid() == 0 {
		free = int64(disk.Bfree) // also what is kept for root
	}
	full := int64(disk.Blocks)*int64(disk.Bsize) > 0 && free*int64(disk.Bsize) < littleSpace //nolint:unconvert // as above
	return full || disk.Files > 0 && disk.Ffree == 0
}

func free(dir string) (int64, bool) {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil || disk.Blocks == 0 {
		return 0, false
	}
	return max(0, int64(disk.Bavail)) * int64(disk.Bsize), true //nolint:unconvert // as above
}
