package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/engine"
)

// A service keeps all that it has on disk in one folder, which it locks for as long as its server lives. A folder under its
// final name that nobody has locked is thus that of a server that was killed, and the next one removes it: file variables and logs
// may be in it.
const (
	folderPrefix = engine.FolderPrefix + "service-"
	// nascentPrefix is that of a folder that is not locked yet.
	nascentPrefix = engine.FolderPrefix + "starting-"
)

// makeFolder makes a service's folder, which only this user may enter. Closing the lock, when it is not nil, gives it up. Where
// folders cannot be locked, the folder keeps its first name, so that nobody takes it for one that was left.
func makeFolder() (path string, lock *os.File, err error) {
	path, err = os.MkdirTemp("", nascentPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("creating a folder for logs: %w", err)
	}
	if lock = lockFolder(path); lock == nil {
		return path, nil, nil
	}
	final := filepath.Join(filepath.Dir(path), folderPrefix+strings.TrimPrefix(filepath.Base(path), nascentPrefix))
	if err := os.Rename(path, final); err != nil {
		_ = lock.Close()
		_ = os.Remove(path)
		return "", nil, fmt.Errorf("creating a folder for logs: %w", err)
	}
	return final, lock, nil
}

// removeLeft removes the folders of this user's servers that were killed.
func (s *Service) removeLeft() {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(s.folder), folderPrefix+"*"))
	for _, path := range found {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || !isMine(info) {
			continue
		}
		lock := lockFolder(path)
		if lock == nil {
			continue // its server lives, this one perhaps
		}
		engine.RemoveFolder(path)
		_ = lock.Close()
		s.opts.Log("removed the files of a server that was killed in " + path)
	}
}

// runFolder is the folder of a run, which the engine fills. Its name is what traces know as that of a run's own folder.
func (s *Service) runFolder(number int64) (string, error) {
	path := s.folderOf(number)
	return path, os.Mkdir(path, 0o700)
}

func (s *Service) folderOf(number int64) string {
	return filepath.Join(s.folder, fmt.Sprint(engine.FolderPrefix, number))
}
