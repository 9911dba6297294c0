//go:build unix

package scarcity

import (
	"io/fs"
	"syscall"
)

// sector is what the system counts the blocks of a file in, whatever its disk has.
const sector = 512

func taken(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * sector
	}
	return info.Size()
}
