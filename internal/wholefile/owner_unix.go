//go:build unix

package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// own gives a file to the owner and the group of another one, as far as this process may, and reports whether it has the group.
func own(file *os.File, of fs.FileInfo) (group bool, err error) {
	stat, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return false, nil
	}
	err = file.Chown(int(stat.Uid), int(stat.Gid))
	if errors.Is(err, fs.ErrPermission) {
		err = file.Chown(-1, int(stat.Gid))
	}
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return err == nil, err
}
