package remotefiles

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// own gives a folder and all in it to a user, who may then change it: files that root has made in it, folders for reading only. It does not
// leave the folder, and gives links themselves.
func own(ctx context.Context, args []string) error {
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("%q is not the number of a user", args[0])
	}
	gid, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("%q is not the number of a group", args[1])
	}
	root, err := os.OpenRoot(args[2])
	if err != nil {
		return err
	}
	defer root.Close()
	const all = 0o700
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		name := filepath.FromSlash(path)
		if err := root.Lchown(name, uid, gid); err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&all == all {
			return err
		}
		return root.Chmod(name, info.Mode().Perm()|all)
	})
}
