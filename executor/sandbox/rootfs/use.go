package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/source/oci/distribution"
)

// Images are removed for want of space only while nobody has them. Whoever has one holds a shared lock on its record, which ends with the process; whoever removes it
// takes an exclusive one, so that processes which know nothing of each other can share the folder.

// ErrInUse says that somebody has an image.
var ErrInUse = errors.New("the image is in use")

// Use keeps an image from being removed, by whichever process, until done is called. It is false for one that is gone. One of the operator's always stays.
func (s *Store) Use(i *Image) (done func(), here bool) {
	if i.ID == "" {
		return func() {}, true
	}
	file, err := os.Open(filepath.Join(s.folderOf(distribution.Digest(i.ID)), recordName))
	if err != nil {
		return nil, false
	}
	_ = lockShared(file) // where there are no locks, nobody can remove it
	if !isStill(file) {
		_ = file.Close()
		return nil, false
	}
	return func() { _ = file.Close() }, true
}

// isStill reports whether an open file still has its name.
func isStill(file *os.File) bool {
	now, err := os.Stat(file.Name())
	if err != nil {
		return false
	}
	opened, err := file.Stat()
	return err == nil && os.SameFile(now, opened)
}

// FolderOf is where an image is; "" if it is not here. id is "sha256:…".
func (s *Store) FolderOf(id string) string {
	digest := distribution.Digest(id)
	if digest.Validate() != nil {
		return ""
	}
	dir := s.folderOf(digest)
	if _, err := os.Stat(filepath.Join(dir, recordName)); err != nil {
		return ""
	}
	return dir
}

// Busy reports whether somebody has an image.
func (s *Store) Busy(id string) bool {
	file, err := s.lockAlone(id)
	if err != nil {
		return errors.Is(err, ErrInUse)
	}
	_ = file.Close()
	return false
}

// Remove removes an image. The error is ErrInUse while somebody has it. One that is not here is no error.
func (s *Store) Remove(id string) error {
	file, err := s.lockAlone(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	gone, err := os.MkdirTemp(s.Folder, "new-") // where what is left of it is removed some day
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Dir(file.Name()), filepath.Join(gone, "image")); err != nil {
		return errors.Join(err, os.Remove(gone))
	}
	return os.RemoveAll(gone)
}

// lockAlone locks the record of an image for removing it.
func (s *Store) lockAlone(id string) (*os.File, error) {
	dir := s.FolderOf(id)
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	file, err := os.Open(filepath.Join(dir, recordName))
	if err != nil {
		return nil, err
	}
	if err := lockExclusive(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if !isStill(file) {
		return nil, errors.Join(fs.ErrNotExist, file.Close())
	}
	return file, nil
}
