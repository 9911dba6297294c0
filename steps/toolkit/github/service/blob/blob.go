// Package blob receives contents as clients of GitHub's storage send them: whole, in blocks that a list
// puts in order (Azure's block blobs), or in ranges (the first protocol of caches). Nothing is in its final place before its owner
// takes it from here, complete.
package blob

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Limits of what is uploaded.
const (
	// MaxSize is how large one content may be, in bytes: GitHub's limit of a cache.
	MaxSize = 10 << 30
	// MaxTotal bounds all that one store ever writes, in bytes. What comes in blocks is written twice.
	MaxTotal = 50 << 30
	// MaxBlocks is how many blocks one content may have: Azure's limit.
	MaxBlocks = 50_000
	// maxBlockID is how long the name of a block may be, in characters.
	maxBlockID = 128
)

// What a client did wrong.
var (
	ErrTooLarge   = errors.New("more was uploaded than is allowed")
	ErrIncomplete = errors.New("the upload is incomplete")
	ErrBadBlock   = errors.New("the block cannot be used")
)

// Store is a folder of uploads.
type Store struct {
	temp string
	used atomic.Int64 // bytes that were ever written

	mu      sync.Mutex
	dir     string // "" until there is an upload
	uploads map[string]*Upload
}

// NewStore returns a store with a folder of its own in temp; "" is the system's.
func NewStore(temp string) *Store { return &Store{temp: temp, uploads: map[string]*Upload{}} }

// Close removes all that was not taken.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// Begin makes an upload with an ID that nobody guesses.
func (s *Store) Begin() (*Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		dir, err := os.MkdirTemp(s.temp, "uploads-")
		if err != nil {
			return nil, fmt.Errorf("making a folder for uploads: %w", err)
		}
		s.dir = dir
	}
	id := rand.Text()
	u := &Upload{ID: id, store: s, dir: filepath.Join(s.dir, id)}
	if err := os.Mkdir(u.dir, 0o700); err != nil {
		return nil, err
	}
	s.uploads[id] = u
	return u, nil
}

// Find returns an upload that was begun and not yet taken or dropped; nil when there is none.
func (s *Store) Find(id string) *Upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uploads[id]
}

// Upload is a content on its way.
type Upload struct {
	ID    string
	store *Store
	dir   string

	mu      sync.Mutex
	blocks  int
	ranges  int64 // bytes written by WriteRange
	content *Content
}

// Content is what was uploaded.
type Content struct {
	Path   string // a file that belongs to whoever took it
	Size   int64  // bytes
	SHA256 string // hexadecimal
}

// Put takes the whole content.
func (u *Upload) Put(r io.Reader) error { return u.assemble(r) }

// Block takes one block. One that comes again replaces what came before.
func (u *Upload) Block(id string, r io.Reader) error {
	path, err := u.blockPath(id)
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.blocks++
	tooMany := u.blocks > MaxBlocks
	u.mu.Unlock()
	if tooMany {
		return fmt.Errorf("%w: a content can have %d blocks", ErrTooLarge, MaxBlocks)
	}
	_, err = u.write(path, r, nil)
	return err
}

// blockPath names the file of a block. Clients differ in whether they send the padding of a name in base64.
func (u *Upload) blockPath(id string) (string, error) {
	id = strings.TrimRight(strings.ReplaceAll(id, " ", "+"), "=")
	if id == "" || len(id) > maxBlockID {
		return "", fmt.Errorf("%w: its name has %d characters, and may have 1 to %d", ErrBadBlock, len(id), maxBlockID)
	}
	return filepath.Join(u.dir, "block-"+hex.EncodeToString([]byte(id))), nil
}

// Commit makes the content of blocks, in the order of the list.
func (u *Upload) Commit(ids []string) error {
	if len(ids) > MaxBlocks {
		return fmt.Errorf("%w: a content can have %d blocks", ErrTooLarge, MaxBlocks)
	}
	pieces := &fileSequence{}
	defer pieces.Close()
	for _, id := range ids {
		path, err := u.blockPath(id)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(path); err != nil {
			return fmt.Errorf("%w: block %q was not uploaded", ErrBadBlock, id)
		}
		pieces.paths = append(pieces.paths, path)
	}
	return u.assemble(pieces)
}

// assemble writes the content and notes its digest.
func (u *Upload) assemble(r io.Reader) error {
	path := filepath.Join(u.dir, "content-"+rand.Text())
	hash := sha256.New()
	size, err := u.write(path, r, hash)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.content != nil {
		os.Remove(u.content.Path) // sent twice; the last one counts
	}
	u.content = &Content{Path: path, Size: size, SHA256: hex.EncodeToString(hash.Sum(nil))}
	return nil
}

// write makes a file of what r has, and none when that fails.
func (u *Upload) write(path string, r io.Reader, also io.Writer) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	var w io.Writer = f
	if also != nil {
		w = io.MultiWriter(f, also)
	}
	size, err := u.copy(w, r)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return size, err
}

// copy is io.Copy within the limits.
func (u *Upload) copy(w io.Writer, r io.Reader) (int64, error) {
	left := min(MaxSize, MaxTotal-u.store.used.Load())
	n, err := io.Copy(w, io.LimitReader(r, left+1))
	if u.store.used.Add(n); err == nil && n > left {
		err = fmt.Errorf("%w: %d bytes at once, %d in all", ErrTooLarge, int64(MaxSize), int64(MaxTotal))
	}
	return n, err
}

// rangesFile is where ranges are put together.
func (u *Upload) rangesFile() string { return filepath.Join(u.dir, "ranges") }

// WriteRange takes the bytes from first to last of the content.
func (u *Upload) WriteRange(first, last int64, r io.Reader) error {
	if first < 0 || last < first || last >= MaxSize {
		return fmt.Errorf("%w: bytes %d to %d of at most %d", ErrTooLarge, first, last, int64(MaxSize))
	}
	f, err := os.OpenFile(u.rangesFile(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	n, err := u.copy(io.NewOffsetWriter(f, first), io.LimitReader(r, last-first+1))
	if err = errors.Join(err, f.Close()); err == nil && n != last-first+1 {
		err = fmt.Errorf("%w: %d bytes came of %d", ErrIncomplete, n, last-first+1)
	}
	if err == nil {
		u.mu.Lock()
		u.ranges += n
		u.mu.Unlock()
	}
	return err
}

// CommitRanges makes the content of ranges. They must be all of size bytes.
func (u *Upload) CommitRanges(size int64) error {
	u.mu.Lock()
	got := u.ranges
	u.mu.Unlock()
	info, err := os.Stat(u.rangesFile())
	if err != nil || info.Size() != size || got < size {
		return fmt.Errorf("%w: %d bytes came of %d", ErrIncomplete, got, size)
	}
	f, err := os.Open(u.rangesFile())
	if err != nil {
		return err
	}
	defer f.Close()
	return u.assemble(f)
}

// Content returns what was uploaded, when it is complete.
func (u *Upload) Content() (Content, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.content == nil {
		return Content{}, ErrIncomplete
	}
	return *u.content, nil
}

// Drop ends the upload and removes what was not moved elsewhere.
func (u *Upload) Drop() {
	u.store.mu.Lock()
	delete(u.store.uploads, u.ID)
	u.store.mu.Unlock()
	os.RemoveAll(u.dir)
}

// fileSequence reads files one after the other, with one open at a time. They stay: a client that got no answer sends its
// list again.
type fileSequence struct {
	paths []string
	file  *os.File
}

func (s *fileSequence) Read(p []byte) (int, error) {
	for {
		if s.file == nil {
			if len(s.paths) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(s.paths[0])
			if err != nil {
				return 0, err
			}
			s.file, s.paths = f, s.paths[1:]
		}
		n, err := s.file.Read(p)
		if n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if err == io.EOF {
			s.Close()
		}
	}
}

// Close closes the file that is being read.
func (s *fileSequence) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
