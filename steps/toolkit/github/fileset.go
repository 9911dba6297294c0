package github

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// filesFolder is where the files of the protocol are, in the folder for temporary files, as on GitHub.
const filesFolder = "_runner_file_commands"

// fileSet is a folder with the files that a process writes to. One process has it after another: to make seven files costs more than many
// a step.
type fileSet struct {
	dir  string
	list string // what is in GITHUB_ARTIFACTS_LIST
}

// takeFiles returns a set of empty files that no other process has.
func (j *job) takeFiles(temp string, list []byte) (*fileSet, error) {
	j.mu.Lock()
	var set *fileSet
	if last := len(j.free) - 1; last >= 0 {
		set, j.free = j.free[last], j.free[:last]
	} else {
		j.sets++
		set = &fileSet{dir: filepath.Join(temp, filesFolder, strconv.Itoa(j.sets))}
	}
	j.mu.Unlock()
	if set.list == "" {
		if err := set.make(); err != nil {
			return nil, err
		}
	}
	if set.list == string(list) {
		return set, nil
	}
	set.list = string(list)
	return set, os.WriteFile(filepath.Join(set.dir, fileVariables["GITHUB_ARTIFACTS_LIST"]), list, 0o600)
}

func (s *fileSet) make() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	for _, name := range fileVariables {
		f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// giveFiles takes a set back when its process has ended. A set that is not as it was made is not used again.
func (j *job) giveFiles(set *fileSet) {
	if err := set.empty(); err != nil {
		_ = os.RemoveAll(set.dir)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.free = append(j.free, set)
}

// empty empties the files. The error says that a process has put something else in the place of one, or beside them.
func (s *fileSet) empty() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) != len(fileVariables) {
		return errors.Join(err, fs.ErrInvalid)
	}
	for variable, name := range fileVariables {
		file := filepath.Join(s.dir, name)
		info, err := os.Lstat(file)
		switch {
		case err != nil || !info.Mode().IsRegular():
			return errors.Join(err, fs.ErrInvalid)
		case variable == "GITHUB_ARTIFACTS_LIST" && info.Size() == int64(len(s.list)):
			continue
		case variable == "GITHUB_ARTIFACTS_LIST":
			return fs.ErrInvalid
		}
		if info.Size() > 0 {
			if err := os.Truncate(file, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
