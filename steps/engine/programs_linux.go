package engine

import (
	"os"
	"syscall"
	"time"
)

// changeTime is when a file was changed last, which nobody can set.
func changeTime(info os.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}
