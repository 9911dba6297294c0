// Package projectfile opens the files of a project that somebody else may have made: a repository that was cloned is data, and what is in it
// decides neither which files of this machine are read nor how much memory that takes.
package projectfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Error says why a file is not read. Is(fs.ErrNotExist) holds for one that does not exist.
type Error struct {
	Name string // below the project's folder, as it was asked for
	Why  string
	Err  error
}

func (e *Error) Error() string { return e.Name + " " + e.Why }

func (e *Error) Unwrap() error { return e.Err }

// Read reads a file below root, of at most limit bytes: a regular file, to which no link leads from outside of root, in place of it or in a
// folder on the way. Root itself is where its owner says that it is.
func Read(root, name string, limit int64) ([]byte, error) {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return nil, explained(err, name)
	}
	defer folder.Close()
	local := filepath.FromSlash(name)
	info, err := folder.Stat(local) // before it is opened: that would wait for whoever writes to a pipe
	if err == nil {
		err = check(info, name, limit)
	}
	if err != nil {
		return nil, explained(err, name)
	}
	f, err := folder.OpenFile(local, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, explained(err, name)
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil {
		err = check(info, name, limit)
	}
	if err != nil {
		return nil, explained(err, name)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, explained(err, name)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(name, limit)
	}
	return data, nil
}

// ReadPath is Read of a path below root. A path that is not below it was named by the user, who may read any file, a pipe too.
func ReadPath(root, path string, limit int64) ([]byte, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if folder := around(root, full); folder != "" {
		name, err := filepath.Rel(folder, full)
		if err != nil {
			return nil, err
		}
		return Read(folder, filepath.ToSlash(name), limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, tooLarge(path, limit)
	}
	return data, err
}

// around returns root as the path has it: a link may lead to root. It is "" for a path that is not below root.
func around(root, full string) string {
	want, err := os.Stat(root)
	if err != nil {
		return ""
	}
	for at := filepath.Dir(full); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, want) {
			return at
		}
		if filepath.Dir(at) == at {
			return ""
		}
	}
}

func check(info fs.FileInfo, name string, limit int64) error {
	switch {
	case info.IsDir():
		return &Error{Name: name, Why: "is a folder"}
	case !info.Mode().IsRegular():
		return &Error{Name: name, Why: "is not a regular file"}
	case info.Size() > limit:
		return tooLarge(name, limit)
	}
	return nil
}

func tooLarge(name string, limit int64) error {
	if limit < 1<<20 {
		return &Error{Name: name, Why: fmt.Sprintf("is larger than %d KiB", limit>>10)}
	}
	return &Error{Name: name, Why: fmt.Sprintf("is larger than %d MiB", limit>>20)}
}

// explained says what is wrong with a file under the name that people know it by.
func explained(err error, name string) error {
	var own *Error
	var path *fs.PathError
	switch {
	case errors.As(err, &own):
		return err
	case strings.Contains(err.Error(), "escapes"): // the error of a root has no name
		return &Error{Name: name, Why: "leads outside the project through a symbolic link"}
	case errors.Is(err, syscall.ENOTDIR): // what should be a folder on the way there is a file
		err = fs.ErrNotExist
	case errors.As(err, &path):
		err = path.Err
	}
	return &Error{Name: name, Why: "cannot be read: " + err.Error(), Err: err}
}
