package cache

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keySize is that of a key, in bytes.
const keySize = 32

// OwnerError says that a file or folder is not one that only its user can have written.
type OwnerError struct {
	Path, Why, Hint string
}

func (e *OwnerError) Error() string { return e.Path + " " + e.Why }

// Open returns the cache in dir, with the key in a file, which is made if there is none. A folder of another user is refused, whoever asks:
// its owner decides what is in it. Without a place for the key the cache is believed for as long as this process lives.
func Open(dir, keyFile string) (*Cache, error) {
	if err := own(dir); err != nil {
		return nil, err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	return Keyed(dir, key), nil
}

// own says whether a folder, if it is there, is this user's.
func own(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !isMine(info):
		return &OwnerError{dir, "belongs to another user, who decides what is in it", "use a folder of your own with --cache, or make this one yours with chown"}
	}
	return nil
}

// readKey reads the key in a file, or makes one.
func readKey(file string) ([]byte, error) {
	fresh := make([]byte, keySize)
	_, _ = rand.Read(fresh) // it never fails
	if file == "" {
		return fresh, nil
	}
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && makeKey(file, fresh) == nil {
		key, err = os.ReadFile(file) // that of another process, if it was faster
	}
	switch {
	case err != nil: // no place for it, or not for us
		return fresh, nil
	case len(key) != keySize:
		return nil, &OwnerError{file, "is not a key", "remove it: what the cache has is then fetched again"}
	}
	if info, err := os.Stat(file); err != nil || !isMine(info) || !isSecret(info) {
		return nil, &OwnerError{file, "can be read by other users, who could make what the cache says", "remove it: what the cache has is then fetched again"}
	}
	return key, nil
}

// makeKey puts a key at its place, whole, unless there is one.
func makeKey(file string, key []byte) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, tempPrefix) // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(key)
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("writing the key of the cache: %w", err)
	}
	if err = os.Link(temp.Name(), file); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(temp.Name(), file) // a file system without links
}
