// Package usage remembers what is on this machine for later jobs because an earlier one needed it, such as an image that was pulled for it, and when
// a job had it last. That is what may be removed for want of space: what is not on record is somebody else's.
//
//	FOLDER/HASH.json    one thing; the file's time is that of its last use
//
// Use and removal exclude each other within a process, so the folder is for one process at a time, and its successors.
package usage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/wholefile"
)

// maxRecord bounds a record, in bytes. A larger one is none of ours.
const maxRecord = 1 << 20

// ErrInUse says that something cannot be removed, because a job has it, or somebody else.
var ErrInUse = errors.New("it is in use")

// Key names a thing.
type Key struct {
	Place string `json:"place"` // what has it, such as the address of an engine
	Kind  string `json:"kind"`  // in the words of whoever put it on record: "image"
	ID    string `json:"id"`
}

// Thing is what is on record.
type Thing struct {
	Key
	Names []string  `json:"names,omitempty"` // that were given to it, beside its ID
	Used  time.Time `json:"-"`               // when a job began, or ceased, to have it
}

// Book is a folder of records. Its methods are safe for concurrent use; those of a nil Book remember nothing.
type Book struct {
	dir string

	holding sync.RWMutex // for writing while something is removed
	mu      sync.Mutex   // of users, sizes, and of the files
	users   map[Key]int
	sizes   map[Key]measured
}

// measured is the size of a thing, as it was after a use.
type measured struct {
	after time.Time
	size  int64
}

// New makes a book of a folder, which is made when something is first put on record.
func New(dir string) *Book { return &Book{dir: dir, users: map[Key]int{}, sizes: map[Key]measured{}} }

// Hold keeps everything from being removed until release is called: what is found meanwhile can be used. It is for moments.
func (b *Book) Hold() (release func()) {
	if b == nil {
		return func() {}
	}
	b.holding.RLock()
	return b.holding.RUnlock
}

// Has reports whether a thing is on record.
func (b *Book) Has(k Key) bool {
	if b == nil {
		return false
	}
	_, err := os.Stat(b.file(k))
	return err == nil
}

// Add puts a thing on record that was just made, or one more name of it.
func (b *Book) Add(k Key, names ...string) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := Thing{Key: k}
	if before, err := read(b.file(k)); err == nil {
		t.Names = before.Names
	}
	for _, name := range names {
		if !slices.Contains(t.Names, name) {
			t.Names = append(t.Names, name)
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	return wholefile.WriteText(b.file(k), 0o600, text)
}

// Use says that a job has a thing until done is called, more often than once if need be. What is not on record stays off it.
func (b *Book) Use(k Key) (done func()) {
	if b == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users[k]++
	b.touch(k)
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.users[k]--; b.users[k] == 0 {
			delete(b.users, k)
		}
		b.touch(k)
	})
}

// touch remembers a use. The caller holds the lock.
func (b *Book) touch(k Key) {
	now := time.Now()
	_ = os.Chtimes(b.file(k), now, now) // there may be no such record
}

// InUse reports whether a job of this process has a thing.
func (b *Book) InUse(k Key) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.users[k] > 0
}

// List is what is on record of a place, the least recently used first. A record that is damaged is left out.
func (b *Book) List(place string) ([]Thing, error) {
	if b == nil {
		return nil, nil
	}
	files, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Thing
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		t, err := read(filepath.Join(b.dir, f.Name()))
		if err == nil && t.Place == place && filepath.Base(b.file(t.Key)) == f.Name() {
			all = append(all, *t)
		}
	}
	slices.SortStableFunc(all, func(a, b Thing) int { return a.Used.Compare(b.Used) })
	return all, nil
}

// Size is the size of a thing, in bytes, for which it takes long to measure it: that is done once after each use. While a job has the thing, its size is
// that of before.
func (b *Book) Size(t Thing, measure func() int64) int64 {
	b.mu.Lock()
	known, has := b.sizes[t.Key]
	if has && (known.after.Equal(t.Used) || b.users[t.Key] > 0) {
		b.mu.Unlock()
		return known.size
	}
	b.mu.Unlock()
	n := measure()
	if n < 0 { // nobody knows
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizes[t.Key] = measured{t.Used, n}
	return n
}

// Remove removes a thing by a function, and its record when that succeeds. The error is ErrInUse while a job has it.
func (b *Book) Remove(k Key, remove func(Thing) error) error {
	if b == nil {
		return nil
	}
	b.holding.Lock()
	defer b.holding.Unlock()
	if b.InUse(k) {
		return ErrInUse
	}
	t, err := read(b.file(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := remove(*t); err != nil {
		return err
	}
	return b.Forget(k)
}

// Forget takes a thing off the record that is not there any more, or not ours.
func (b *Book) Forget(k Key) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	delete(b.sizes, k)
	b.mu.Unlock()
	if err := os.Remove(b.file(k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const suffix = ".json"

func (b *Book) file(k Key) string {
	sum := sha256.Sum256([]byte(k.Place + "\x00" + k.Kind + "\x00" + k.ID))
	return filepath.Join(b.dir, hex.EncodeToString(sum[:16])+suffix)
}

func read(file string) (*Thing, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRecord {
		return nil, errors.New(file + " is too large for the record of a use")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var t Thing
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, err
	}
	t.Used = info.ModTime()
	return &t, nil
}

// Marks are uses that end together. The zero value has none. Its methods are safe for concurrent use.
type Marks struct {
	mu   sync.Mutex
	done []func()
}

// Add adds a use, by what ends it.
func (m *Marks) Add(done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = append(m.done, done)
}

// End ends them.
func (m *Marks) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, done := range m.done {
		done()
	}
	m.done = nil
}
