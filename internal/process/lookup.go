package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// program returns the file to execute for Args[0], as seen from Dir.
func (s *Spec) program() (string, error) {
	name := s.Args[0]
	if hasSeparator(name) {
		return s.programAt(name)
	}
	path, set := s.searchPath()
	var refused error
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if !hasSeparator(file) {
			file = "." + string(filepath.Separator) + file // an empty item, or a dot, is the work directory
		}
		found, err := executable(s.inDir(file), s.Env)
		if err == nil {
			return strings.TrimSuffix(file, filepath.Base(file)) + filepath.Base(found), nil
		}
		if refused == nil && !errors.Is(err, fs.ErrNotExist) {
			refused = s.fail(ErrNotExecutable, err, "%s was found in PATH but %v", file, err)
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", s.failNotFound(path, set)
}

// searchPath returns the PATH of Env. The last one counts, as in a shell.
func (s *Spec) searchPath() (path string, set bool) {
	for _, v := range s.Env {
		if name, value, ok := strings.Cut(v, "="); ok && sameName(name, "PATH") {
			path, set = value, true
		}
	}
	return path, set
}

// inDir returns the path as it is seen from this program's work directory.
func (s *Spec) inDir(path string) string {
	if s.Dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.Dir, path)
}

// checkDir returns an error when the work directory is the reason that a process could not start.
func (s *Spec) checkDir() error {
	if s.Dir == "" {
		return nil
	}
	info, err := os.Stat(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.fail(ErrWorkDir, err, "its work directory %s does not exist; create it first or correct work_dir", s.Dir)
	case err != nil:
		return s.fail(ErrWorkDir, err, "its work directory %s cannot be used: %v", s.Dir, cause(err))
	case !info.IsDir():
		return s.fail(ErrWorkDir, nil, "its work directory %s is not a directory; correct work_dir", s.Dir)
	}
	if err := enterable(s.Dir); err != nil {
		return s.fail(ErrWorkDir, err, "its work directory %s cannot be entered: %v; change its permissions", s.Dir, err)
	}
	return nil
}

// cause takes the operation and path off an error of the file system.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
