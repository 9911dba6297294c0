package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile writes a file whole or not at all: what stood there stays until all of it is written.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err = write(temp); err == nil && mode != 0o600 {
		err = temp.Chmod(mode)
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
