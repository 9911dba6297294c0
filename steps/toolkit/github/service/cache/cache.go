// Package cache keeps the caches of actions in a folder: for each a file with its content, ID.cache, and ID.json that says what it
// is; ID is a digest of key and version. A cache does not change once it is there. When a folder grows over its limit, what was not
// restored for the longest time goes.
//
// Several processes may use a folder at the same time. What is written appears whole, the description last; what is read may vanish,
// and is a cache that was not found then.
package cache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rungci/rung/internal/wholefile"
)

// Limits of caches.
const (
	// MaxTotal is how many bytes a folder keeps: what GitHub keeps for a repository.
	MaxTotal = 10 << 30
	// MaxKey is how long a key or a version may be, in bytes.
	MaxKey = 512
	// maxInfo is how large the description of a cache may be, in bytes.
	maxInfo = 16 << 10
	// usedLater is how much later a copy of a cache must have been used: copies lose parts of a second.
	usedLater = 2 * time.Second
	// strayAge is how old a file must be that belongs to no cache before it is taken for a leftover.
	strayAge = 24 * time.Hour
)

// What can be wrong.
var (
	ErrKey    = errors.New("the key of the cache cannot be used")
	ErrExists = errors.New("cache entry with the same key, version, and scope already exists")
)

// Entry says what a cache is.
type Entry struct {
	ID      int64     `json:"id"` // microseconds since 1970
	Key     string    `json:"key"`
	Version string    `json:"version"`
	Size    int64     `json:"size"` // bytes
	Created time.Time `json:"created"`
}

// Folder is where caches are kept.
type Folder struct {
	Dir string
	// Max is how many bytes are kept; 0 is MaxTotal.
	Max int64
}

// Check refuses keys and versions that GitHub refuses.
func Check(key, version string) error {
	for _, text := range []string{key, version} {
		if text == "" || len(text) > MaxKey || strings.Contains(text, ",") || strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%w: key and version have 1 to %d bytes, no comma and no control character", ErrKey, MaxKey)
		}
	}
	return nil
}

// Name is that of a cache's files, without their endings: hexadecimal.
func (e Entry) Name() string {
	sum := sha256.Sum256([]byte(e.Version + "\x00" + e.Key))
	return hex.EncodeToString(sum[:])
}

// Path is where the content of a cache is. Its time of change is when it was last used.
func (f Folder) Path(e Entry) string { return filepath.Join(f.Dir, e.Name()+".cache") }

func (f Folder) infoPath(e Entry) string { return filepath.Join(f.Dir, e.Name()+".json") }

// List returns all caches, the newest first.
func (f Folder) List() ([]Entry, error) {
	files, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Entry
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".json") {
			continue
		}
		if e, ok := f.read(filepath.Join(f.Dir, file.Name())); ok {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(b.ID, a.ID) })
	return all, nil
}

// read takes a description that is damaged, or stands under another's name, for none.
func (f Folder) read(path string) (e Entry, ok bool) {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxInfo {
		return e, false
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &e) != nil || path != f.infoPath(e) {
		return e, false
	}
	content, err := os.Stat(f.Path(e))
	return e, err == nil && content.Size() == e.Size
}

// Find returns the cache for a list of keys: for each in turn the one that has it, else the newest whose key begins with it.
func (f Folder) Find(keys []string, version string) (Entry, bool, error) {
	all, err := f.List()
	if err != nil {
		return Entry{}, false, err
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return e.Version != version })
	for _, key := range keys {
		matches := []func(Entry) bool{
			func(e Entry) bool { return e.Key == key },
			func(e Entry) bool { return strings.HasPrefix(e.Key, key) },
		}
		for _, match := range matches {
			if i := slices.IndexFunc(all, match); key != "" && i >= 0 {
				now := time.Now()
				_ = os.Chtimes(f.Path(all[i]), now, now) // when it cannot be noted, the cache goes a little earlier
				return all[i], true, nil
			}
		}
	}
	return Entry{}, false, nil
}

// Has reports whether there is a cache with exactly this key and version.
func (f Folder) Has(key, version string) bool {
	_, ok := f.read(f.infoPath(Entry{Key: key, Version: version}))
	return ok
}

// ByName returns the cache of a Name.
func (f Folder) ByName(name string) (Entry, bool) {
	if _, err := hex.DecodeString(name); err != nil || name == "" {
		return Entry{}, false
	}
	return f.read(filepath.Join(f.Dir, name+".json"))
}

// Add takes over a file as the content of a cache, and makes room for it.
func (f Folder) Add(key, version, file string) (Entry, error) {
	e := Entry{Key: key, Version: version, Created: time.Now().UTC().Truncate(time.Microsecond)}
	e.ID = e.Created.UnixMicro()
	if err := Check(key, version); err != nil {
		return e, err
	}
	if f.Has(key, version) {
		return e, ErrExists
	}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return e, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return e, err
	}
	e.Size = info.Size()
	if os.Rename(file, f.Path(e)) != nil { // another file system
		if err := copyFile(file, f.Path(e)); err != nil {
			return e, err
		}
	}
	now := time.Now()
	if err := os.Chtimes(f.Path(e), now, now); err != nil {
		return e, err
	}
	text, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	if err := wholefile.WriteText(f.infoPath(e), 0o600, append(text, '\n')); err != nil {
		return e, err
	}
	f.prune(e)
	return e, nil
}

// Take adds the caches of another folder, whose files are moved. That folder comes from a job and may hold anything: what does not
// describe itself is left, and a cache that exists already stays as it is, but counts as used when the job used it.
func (f Folder) Take(from Folder) error {
	all, err := from.List()
	if err != nil {
		return err
	}
	slices.Reverse(all) // the oldest first
	for _, e := range all {
		if f.Has(e.Key, e.Version) {
			f.use(from, e)
			continue
		}
		if info, err := os.Lstat(from.Path(e)); err != nil || !info.Mode().IsRegular() || Check(e.Key, e.Version) != nil {
			continue
		}
		if _, err := f.Add(e.Key, e.Version, from.Path(e)); err != nil && !errors.Is(err, ErrExists) {
			return err
		}
	}
	return nil
}

// use notes that a cache was used, when it was elsewhere.
func (f Folder) use(from Folder, e Entry) {
	there, err := os.Stat(from.Path(e))
	here, hereErr := os.Stat(f.Path(e))
	if err == nil && hereErr == nil && there.ModTime().After(here.ModTime().Add(usedLater)) {
		now := time.Now()
		_ = os.Chtimes(f.Path(e), now, now)
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return wholefile.Write(to, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// prune removes what was not used for the longest time until the rest is within the limit. The newest stays, whatever its size.
// What cannot be removed (on Windows: because somebody reads it) is left to the next one.
func (f Folder) prune(newest Entry) {
	all, err := f.List()
	if err != nil {
		return
	}
	f.sweep(all)
	used := make(map[int64]time.Time, len(all))
	var total int64
	for _, e := range all {
		total += e.Size
		if info, err := os.Stat(f.Path(e)); err == nil {
			used[e.ID] = info.ModTime()
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return used[a.ID].Compare(used[b.ID]) })
	for _, e := range all {
		if total <= cmp.Or(f.Max, MaxTotal) {
			break
		}
		if e.ID == newest.ID {
			continue
		}
		// The description goes first: nobody may find what is half there.
		if os.Remove(f.infoPath(e)) == nil && os.Remove(f.Path(e)) == nil {
			total -= e.Size
		}
	}
}

// sweep removes what processes left that were killed while they saved.
func (f Folder) sweep(all []Entry) {
	known := make(map[string]bool, 2*len(all))
	for _, e := range all {
		known[filepath.Base(f.Path(e))], known[filepath.Base(f.infoPath(e))] = true, true
	}
	files, err := os.ReadDir(f.Dir)
	if err != nil {
		return
	}
	for _, file := range files {
		info, err := file.Info()
		if err == nil && info.Mode().IsRegular() && !known[file.Name()] && time.Since(info.ModTime()) > strayAge {
			os.Remove(filepath.Join(f.Dir, file.Name()))
		}
	}
}
