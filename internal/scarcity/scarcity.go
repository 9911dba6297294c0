// Package scarcity finds out which resource a machine ran out of when something failed, or would: disk space or memory.
package scarcity

import (
	"context"
	"io/fs"
	"path/filepath"
)

// littleSpace is how much space a disk has at most that counts as full, in bytes. Some file systems keep a few blocks for themselves.
const littleSpace = 16 << 10

// DiskFull reports whether an error says that a disk, or the user's part of it, is full.
func DiskFull(err error) bool { return err != nil && diskFull(err) }

// FullDisk returns the first of the folders that is on a full disk; "" if none is, as far as the system says.
func FullDisk(dirs ...string) string {
	for _, dir := range dirs {
		if dir != "" && isFull(dir) {
			return dir
		}
	}
	return ""
}

// Free returns how many bytes are free on the disk of a folder, for those who are not root. It is not known where there is no such folder, or the
// system does not tell: Linux, macOS and FreeBSD do.
func Free(dir string) (bytes int64, known bool) {
	if dir == "" {
		return 0, false
	}
	return free(dir)
}

// Kills returns how many processes the kernel has killed for want of memory among those that share this one's limits. It is 0 where the
// system does not tell.
func Kills() int64 { return kills() }

// MemoryUsed says how much memory the processes that share this one's limits have used, and may use, to go on with a sentence. It is empty
// where they have no limit of their own, or the system does not tell.
func MemoryUsed() string { return memoryUsed() }

// Taken is how much of a disk a folder takes with all that is in it, in bytes, as far as it can be read. Links are not followed; a file with several
// names counts for each, and of one with holes what is on the disk.
func Taken(ctx context.Context, dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil // somebody is removing it, or nobody may look
		}
		if info, err := entry.Info(); err == nil {
			bytes += taken(info)
		}
		return nil
	})
	return bytes
}
