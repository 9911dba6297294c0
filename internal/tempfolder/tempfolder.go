// Package tempfolder creates temporary folders that are removed even if their program is killed: the next program that creates one removes
// them.
//
// A folder holds a file that its maker has locked. A folder whose file nobody has locked is that of a killed program. Where files cannot be
// locked, a folder has no such file, and nobody takes it for one that was left.
package tempfolder

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/rungci/rung/internal/discard"
)

// namePrefix begins the name of every folder.
const namePrefix = "step-runner-"

// lockName is the file in a folder that its maker has locked.
const lockName = ".in-use"

// locks are the locks of this program's folders, by path.
var locks sync.Map

// Settle makes a relative TMPDIR absolute, for this program and those that it starts, which may be in other folders.
func Settle() {
	dir := os.Getenv("TMPDIR")
	if dir == "" || filepath.IsAbs(dir) {
		return
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		_ = os.Setenv("TMPDIR", absolute)
	}
}

// Fallback makes dir the folder for temporary files, if nothing can be written in that of the environment: the TMPDIR of an image may not exist, and
// its user may not write to /tmp.
func Fallback(dir string) {
	probe, err := os.MkdirTemp("", namePrefix+"probe")
	if err == nil {
		_ = os.Remove(probe)
		return
	}
	_ = os.Setenv("TMPDIR", dir) // what cannot be written there, either, is an error soon
}

// Make makes a folder that only this user may enter. purpose is part of its name, which ends with a number.
func Make(purpose string) (string, error) {
	path, err := os.MkdirTemp("", namePrefix+purpose)
	if err != nil {
		return "", err
	}
	if lock := newLock(path); lock != nil {
		locks.Store(path, lock)
	}
	go removeLeft(filepath.Dir(path)) // it may be much, and what is not removed now is another time
	return path, nil
}

// newLock makes the locked file of a folder. It has its name only once it is locked.
func newLock(folder string) *os.File {
	temp := filepath.Join(folder, lockName+".new")
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	if lockFile(file) && os.Rename(temp, filepath.Join(folder, lockName)) == nil {
		return file
	}
	_ = file.Close()
	_ = os.Remove(temp)
	return nil
}

// RemoveLeft removes the folders of this user's programs that were killed.
func RemoveLeft() { removeLeft(os.TempDir()) }

func removeLeft(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, namePrefix+"*", lockName))
	for _, name := range found {
		file, err := openOwn(name)
		if err != nil {
			continue // another user's, or not a file of ours
		}
		if lockFile(file) {
			Remove(filepath.Dir(name))
		}
		_ = file.Close()
	}
}

// Remove removes a folder with all that is in it, whoever made it.
func Remove(path string) {
	if path == "" {
		return
	}
	_ = discard.All(context.Background(), path)
	if lock, ok := locks.LoadAndDelete(path); ok {
		_ = lock.(*os.File).Close()
	}
}
