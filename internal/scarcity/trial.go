package scarcity

import (
	"errors"
	"io/fs"
	"os"
)

// TryWrite writes a file of so many bytes into a folder and removes it. The error is the system's reason, without a path, why that is not possible: a
// full disk takes names, and only bytes show that it is full.
func TryWrite(dir string, bytes int) error {
	f, err := os.CreateTemp(dir, ".room-*")
	if err != nil {
		return reason(err)
	}
	_, err = f.Write(make([]byte, bytes))
	return reason(errors.Join(err, f.Close(), os.Remove(f.Name())))
}

// reason is an error without the name of the file that was tried.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
