package cache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// files are the folders of a cache and the plain files in them, whatever they mean.
type files struct {
	dir string
	key []byte // of what pins and names say; nil asks for none
}

// mac is the code of an entry of a folder: that whoever wrote it had the key.
func (f files) mac(folder string, parts []string) string {
	if f.key == nil {
		return ""
	}
	h := hmac.New(sha256.New, f.key)
	for _, part := range append([]string{folder}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// wrote reports whether an entry has its code.
func (f files) wrote(folder, mac string, parts []string) bool {
	return f.key == nil || hmac.Equal([]byte(mac), []byte(f.mac(folder, parts)))
}

// folder makes one of the cache's folders, which only this user may read: components may be from private repositories.
func (f files) folder(name string) (string, error) {
	dir := filepath.Join(f.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w; --cache DIR takes another", err)
	}
	return dir, nil
}

// entries lists one of the cache's folders; one that is not there is empty.
func (f files) entries(name string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// eachJSON calls visit with the files of one of the cache's folders.
func (f files) eachJSON(folder string, visit func(path string, text []byte)) {
	entries, err := f.entries(folder)
	if err != nil {
		return
	}
	for _, file := range entries {
		if !strings.HasSuffix(file.Name(), ".json") {
			continue
		}
		path := filepath.Join(f.dir, folder, file.Name())
		if text, err := os.ReadFile(path); err == nil {
			visit(path, text)
		}
	}
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func (f files) writeJSON(folder, name string, v any) error {
	dir, err := f.folder(folder)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(dir, name+".json"))
}

// lock takes the lock with a name. It waits until ctx ends.
func (f files) lock(ctx context.Context, name string) (unlock func(), err error) {
	dir, err := f.folder(locksDir)
	if err != nil {
		return nil, err
	}
	type locked struct {
		unlock func()
		err    error
	}
	got := make(chan locked)
	go func() {
		unlock, err := lockedfile.MutexAt(filepath.Join(dir, name)).Lock()
		select {
		case got <- locked{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	select {
	case l := <-got:
		return l.unlock, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
