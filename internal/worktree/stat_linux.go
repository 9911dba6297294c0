package worktree

import (
	"io/fs"
	"syscall"
)

// statOf returns what Git's index remembers of a file.
func statOf(info fs.FileInfo) stat {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stat{}
	}
	return stat{
		known: true, ctime: stamp{s.Ctim.Sec, s.Ctim.Nsec}, mtime: stamp{s.Mtim.Sec, s.Mtim.Nsec},
		dev: uint32(s.Dev), ino: uint32(s.Ino), uid: s.Uid, gid: s.Gid, size: uint32(s.Size),
	}
}
