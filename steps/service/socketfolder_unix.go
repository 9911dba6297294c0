//go:build unix

package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// socketFolder is a folder in the one for temporary files, which all users share: whoever makes a socket there first would have its name.
func socketFolder() string {
	return filepath.Join(os.TempDir(), "step-runner-user-"+strconv.Itoa(os.Geteuid()))
}

// MakeSocketFolder makes the folder of the default socket, which only this user may enter.
func MakeSocketFolder() error {
	if err := os.Mkdir(socketFolder(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return CheckSocketFolder()
}

// CheckSocketFolder returns an error, which is fs.ErrPermission, if others may enter the folder of the default socket or made it.
func CheckSocketFolder() error {
	folder := socketFolder()
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder: %w", folder, fs.ErrPermission)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user: %w", folder, fs.ErrPermission)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users may enter %s: %w", folder, fs.ErrPermission)
	}
	return nil
}
