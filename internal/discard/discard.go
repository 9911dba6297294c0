// Package discard removes what somebody else has made, who may not want it to be removed: folders that nobody may enter, files that even root may
// not change, and folders of the system that are mounted in it, which must stay.
package discard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// All removes a file, or a folder with all that is in it. Links are not followed. What is mounted below it is unmounted, not removed; where
// that cannot be done, nothing is removed, and the error says what is mounted. That path does not exist is no error.
func All(ctx context.Context, path string) error {
	if err := Unmount(path); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return Stubborn(ctx, path)
}

// Unmount unmounts what is mounted at or below a path, the newest first. Where the system does not tell, it does nothing.
func Unmount(path string) error { return unmount(path) }

// Stubborn is All, but that it unmounts nothing: what is mounted below path is an error.
func Stubborn(ctx context.Context, path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	// A folder is read after it was visited, so that one that could not be read can be by then.
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case entry == nil || err != nil && !errors.Is(err, fs.ErrPermission):
			return nil
		case entry.IsDir():
			loosen(name)
			_ = os.Chmod(name, 0o700)
		case entry.Type().IsRegular():
			loosen(name)
			if runtime.GOOS == "windows" { // where a file must be writable to be removed
				_ = os.Chmod(name, 0o600)
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return os.RemoveAll(path)
}

// Contents removes what is in a folder, which stays, as Stubborn does.
func Contents(ctx context.Context, folder string) error {
	loosen(folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := Stubborn(ctx, filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
