package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// spool keeps what one goroutine appends and any number of others read, also while it grows: the first bytes in memory, so that
// a small run leaves the disk alone, and all of them in a file as soon as there are more.
type spool struct {
	path  string
	given bool  // the file is somebody else's: it stays
	limit int64 // 0 is none
	write func(data []byte, at int64) (int, error)

	mu      sync.Mutex
	memory  []byte   // all there is, while there is no file
	file    *os.File // nil until there is more than maxInMemory
	rest    *os.File // of our own: what a given file could not take; nil is nothing
	restAt  int64    // where rest begins
	closed  bool
	size    int64         // how much can be read
	cut     error         // why nothing was added after that
	done    bool          // nothing will be added
	wake    chan struct{} // closed and replaced when one of the above has changed
	waiting int           // how many wait for that
}

// maxInMemory is how much of a spool is kept in memory, in bytes. A run has two.
const maxInMemory = 16 << 10

// errLimit says that a log is as long as it may be.
var errLimit = errors.New("its limit")

// newSpool makes a spool whose file, when it needs one, is at path.
func newSpool(path string, limit int64) *spool {
	s := &spool{path: path, limit: limit, wake: make(chan struct{})}
	s.write = s.store
	return s
}

// newSpoolIn makes a spool of an empty file that somebody else keeps. What that cannot take, as on a full disk, goes to a file at path.
func newSpoolIn(file *os.File, path string, limit int64) *spool {
	s := newSpool(path, limit)
	s.file, s.given = file, true
	return s
}

// store puts data in its place. The caller holds the lock.
func (s *spool) store(data []byte, at int64) (int, error) {
	if s.closed {
		return 0, os.ErrClosed
	}
	if s.file == nil {
		if len(s.memory)+len(data) <= maxInMemory {
			s.memory = append(s.memory, data...)
			return len(data), nil
		}
		file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return 0, err
		}
		if _, err := file.WriteAt(s.memory, 0); err != nil {
			_ = file.Close()
			_ = os.Remove(s.path)
			return 0, err
		}
		s.file, s.memory = file, nil
	}
	if s.rest != nil {
		return s.rest.WriteAt(data, at-s.restAt)
	}
	n, err := s.file.WriteAt(data, at)
	if err != nil && s.given && s.divert(data, at) {
		return len(data), nil
	}
	return n, err
}

// divert puts data, which a given file could not take, into a file of our own, and all that follows. The caller holds the lock.
func (s *spool) divert(data []byte, at int64) bool {
	rest, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	if _, err := rest.WriteAt(data, 0); err != nil {
		_ = rest.Close()
		_ = os.Remove(s.path)
		return false
	}
	s.rest, s.restAt = rest, at
	return true
}

// diverted reports whether what is at a place of a given file is elsewhere, as the file could not take it.
func (s *spool) diverted(at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rest != nil && at >= s.restAt
}

// ReadAt implements io.ReaderAt, for what extent says can be read.
func (s *spool) ReadAt(p []byte, at int64) (int, error) {
	s.mu.Lock()
	file := s.file
	if file == nil {
		defer s.mu.Unlock()
		if s.closed {
			return 0, os.ErrClosed
		}
		n := copy(p, s.memory[min(at, int64(len(s.memory))):])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	rest, before := s.rest, s.restAt-at
	s.mu.Unlock()
	switch {
	case rest == nil || int64(len(p)) <= before:
		return file.ReadAt(p, at)
	case before <= 0:
		return rest.ReadAt(p, -before)
	}
	if n, err := file.ReadAt(p[:before], at); err != nil {
		return n, err
	}
	n, err := rest.ReadAt(p[before:], 0)
	return n + int(before), err
}

// append adds data and returns where it stands. Once something could not be added, nothing is: what follows a gap would be
// taken for what is missing. whole says that data is of no use in part.
func (s *spool) append(data []byte, whole bool) (at int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil || s.done {
		return 0, false
	}
	fits := data
	if s.limit > 0 && s.size+int64(len(data)) > s.limit {
		fits = data[:s.limit-s.size]
	}
	at = s.size
	n, err := s.write(fits, at)
	if err == nil && len(fits) < len(data) {
		err = fmt.Errorf("%w of %d bytes is reached", errLimit, s.limit)
	}
	s.cut = err
	if err == nil || !whole {
		s.size += int64(n)
	}
	s.changed()
	return at, err == nil
}

// finish says that nothing will be added.
func (s *spool) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	s.changed()
}

// changed wakes those who wait. The caller holds the lock.
func (s *spool) changed() {
	if s.waiting > 0 {
		close(s.wake)
		s.wake, s.waiting = make(chan struct{}), 0
	}
}

// extent returns how much can be read, whether that is all, and why there is no more where something was lost.
func (s *spool) extent() (size int64, done bool, cut error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, s.done, s.cut
}

// await waits until there is more than size, or will be no more. It returns what extent does.
func (s *spool) await(ctx context.Context, size int64) (int64, bool, error, error) {
	for {
		s.mu.Lock()
		if s.size > size || s.done || s.cut != nil {
			defer s.mu.Unlock()
			return s.size, s.done, s.cut, nil
		}
		s.waiting++
		wake := s.wake
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, false, nil, contextError(ctx)
		}
	}
}

// remove gives up all that the spool holds. Whoever reads it from now on gets os.ErrClosed, and whoever waits is woken.
func (s *spool) remove() {
	s.finish()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.memory = true, nil
	if s.file != nil {
		_ = s.file.Close()
		if !s.given {
			_ = os.Remove(s.path)
		}
	}
	if s.rest != nil {
		_ = s.rest.Close()
		_ = os.Remove(s.path)
	}
}
