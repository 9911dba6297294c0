package store

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/rungci/rung/internal/pack"
)

// ReadArchived returns one file of a zip archive of artifacts, which has at most so many bytes.
func ReadArchived(archive, name string, most int64) ([]byte, error) {
	in, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err == nil {
		err = pack.CheckZip(in, info.Size(), pack.DefaultMaxEntries)
	}
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(in, info.Size())
	if err != nil {
		return nil, err
	}
	f, err := z.Open(path.Clean(name))
	if err != nil {
		return nil, errors.New("the archive does not contain the file")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("the file is larger than %d MiB", most>>20)
	}
	return data, err
}
