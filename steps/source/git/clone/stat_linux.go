package clone

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// system notes what only this system knows of a file.
func system(e *index.Entry, info fs.FileInfo) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		e.CreatedAt = time.Unix(stat.Ctim.Unix())
		e.Dev, e.Inode, e.UID, e.GID = uint32(stat.Dev), uint32(stat.Ino), stat.Uid, stat.Gid
	}
}
