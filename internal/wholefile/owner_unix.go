//go:build unix

package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// own gives a file to the owner of another one, as far as this process may.
func own(file *os.File, of fs.FileInfo) error {
	stat, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := file.Chown(int(stat.Uid), int(stat.Gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
