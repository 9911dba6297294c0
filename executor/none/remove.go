package none

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// removeAll removes a folder and what is in it, also what a job has made read-only.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	// A folder is read after it was visited, so that one that could not be read can be by then. Links are not followed.
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if entry == nil || err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if entry.IsDir() {
			_ = os.Chmod(name, 0o700)
		} else if entry.Type().IsRegular() && readOnlyFilesStay {
			_ = os.Chmod(name, 0o600)
		}
		return nil
	})
	return os.RemoveAll(path)
}
