// Package scarcity finds out which resource a machine ran out of when something failed: disk space or memory.
package scarcity

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

// Kills returns how many processes the kernel has killed for want of memory among those that share this one's limits. It is 0 where the
// system does not tell.
func Kills() int64 { return kills() }
