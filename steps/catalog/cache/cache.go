// Package cache is the code of builtin://cache/restore and builtin://cache/save.
//
// A cache is an archive under a key. It is kept in a folder, as LOCATION/KEY/cache.zip whatever its format, which is how GitLab's runner
// keeps its own; in a bucket of an object store, as the object PREFIX/KEY; or at addresses that somebody else has signed.
//
// A cache is a help, and nothing fails for the lack of one: what goes wrong with keeping or fetching one is a warning. Only a step that
// is called wrongly fails.
//
// What has not changed is not kept again. A mark, made of the names, modes, sizes and times of the files, is beside the archive: in a
// file cache.mark, or in the object's metadata. An archive in a folder without one is taken to be up to date if it is newer than every
// file, as the runner has it.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/catalog/cache/bucket"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// errMissing says that a store has no cache of a key.
var errMissing = errors.New("there is no cache of this key")

// store is where caches are kept.
type store interface {
	// get returns the archive of a key, open and at its beginning, and what gives it up. The error is errMissing when there is none.
	get(ctx context.Context, key string) (archive *os.File, done func(), err error)
	// current reports whether the archive of a key has a mark, or has none and is newer than a time.
	current(ctx context.Context, key, mark string, newest time.Time) (bool, error)
	// create makes the file that takes the archive until it is complete.
	create(key string) (*os.File, error)
	// put keeps a complete archive, which create made.
	put(ctx context.Context, key string, a archive) error
}

// archive is a complete archive.
type archive struct {
	path    string
	entries int
	size    int64
	sha256  string // in hexadecimal
	mark    string
}

// open returns the store of a location: a folder, or the address of a bucket.
func open(call *program.Call, location string) (store, error) {
	if bucket.Is(location) {
		b, err := bucket.Open(location, bucket.Config{Getenv: call.Getenv, Client: client(call)})
		if err != nil {
			return nil, err
		}
		return &remote{bucket: b}, nil
	}
	return &folder{dir: absolute(call, location)}, nil
}

func absolute(call *program.Call, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(call.WorkDir, path)
}

// clientHook changes the client of the tests.
var clientHook = func(*transfer.Client) {}

func client(call *program.Call) *transfer.Client {
	c := &transfer.Client{Again: func(err error, wait time.Duration) {
		selection.Warn(call, "%v; trying again in %v", err, wait.Round(time.Second/10))
	}}
	clientHook(c)
	return c
}

// temporary makes a file for an archive that goes elsewhere, or came from there, and what closes and removes it.
func temporary() (*os.File, func(), error) {
	f, err := os.CreateTemp("", "cache-*.zip")
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close(); os.Remove(f.Name()) }, nil
}

// remote keeps caches in a bucket.
type remote struct{ bucket *bucket.Bucket }

func (r *remote) get(ctx context.Context, key string) (*os.File, func(), error) {
	f, done, err := temporary()
	if err != nil {
		return nil, nil, err
	}
	if _, err := r.bucket.Get(ctx, key, f); err != nil {
		done()
		if errors.Is(err, bucket.ErrNotFound) {
			return nil, nil, errMissing
		}
		return nil, nil, err
	}
	return f, done, nil
}

func (r *remote) current(ctx context.Context, key, mark string, _ time.Time) (bool, error) {
	stands, err := r.bucket.Mark(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return false, nil
	}
	return err == nil && stands == mark, err
}

func (r *remote) create(string) (*os.File, error) { return os.CreateTemp("", "cache-*.zip") }

func (r *remote) put(ctx context.Context, key string, a archive) error {
	defer os.Remove(a.path)
	content, size, err := transfer.File(a.path)
	if err != nil {
		return err
	}
	return r.bucket.Put(ctx, key, bucket.Content{Open: content, Size: size, SHA256: a.sha256, Mark: a.mark})
}

// folder keeps caches in a folder.
type folder struct{ dir string }

const (
	archiveName = "cache.zip"
	markName    = "cache.mark"
)

func (f *folder) path(key, name string) string {
	return filepath.Join(f.dir, filepath.FromSlash(key), name)
}

// contained returns an error when a folder of the key, or the archive, is a symbolic link: keys are only names, and what is kept under
// one stays in the location. The location itself may be reached by links.
func (f *folder) contained(key string) error {
	at := f.dir
	for _, name := range append(strings.Split(key, "/"), archiveName) {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link, and caches stay in their location; remove it", at)
		}
	}
	return nil
}

func (f *folder) get(_ context.Context, key string) (*os.File, func(), error) {
	if err := f.contained(key); err != nil {
		return nil, nil, err
	}
	file, err := os.Open(f.path(key, archiveName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errMissing
	}
	if err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil
}

func (f *folder) current(_ context.Context, key, mark string, newest time.Time) (bool, error) {
	info, err := os.Stat(f.path(key, archiveName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(f.path(key, markName))
	var stands string
	var size, modified int64
	if err == nil {
		if _, err = fmt.Sscanf(string(text), markFormat, &stands, &size, &modified); err == nil && size == info.Size() && modified == info.ModTime().UnixNano() {
			return stands == mark, nil
		}
	}
	return !newest.After(info.ModTime()), nil // somebody else made it
}

// markFormat is a mark, and the size and time of the archive that it is of.
const markFormat = "%s %d %d\n"

func (f *folder) create(key string) (*os.File, error) {
	if err := f.contained(key); err != nil {
		return nil, err
	}
	dir := f.path(key, "")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, ".cache-*.tmp")
}

func (f *folder) put(_ context.Context, key string, a archive) error {
	to := f.path(key, archiveName)
	if err := os.Chmod(a.path, 0o644); err != nil {
		return err
	}
	if err := os.Rename(a.path, to); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	// The mark names the archive that it is of, so it does not matter when it comes later than that, or never.
	return wholefile.Write(f.path(key, markName), 0o644, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, markFormat, a.mark, info.Size(), info.ModTime().UnixNano())
		return err
	})
}
