package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/internal/lockedfile"
)

// The files of a store.
const (
	journalName = "fleet.journal"
	lockName    = "fleet.lock"
)

// ErrInUse says that another process has the store.
var ErrInUse = errors.New("another process manages this fleet")

// file is a Store in a folder.
type file struct {
	folder string
	lock   *os.File

	mu      sync.Mutex
	journal journal
	history history
}

// Open opens the store in a folder, which is made if it does not exist. One process at a time can: the error is ErrInUse while another one does.
func Open(folder string) (Store, error) {
	if err := os.MkdirAll(filepath.Join(folder, historyFolder), 0o700); err != nil {
		return nil, fmt.Errorf("the folder of the fleet: %w", err)
	}
	lock, err := lockedfile.Open(filepath.Join(folder, lockName))
	if errors.Is(err, lockedfile.ErrInUse) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("the state of the fleet in %s: %w", folder, err)
	}
	return &file{
		folder: folder, lock: lock, history: history{folder: filepath.Join(folder, historyFolder)}, journal: journalIn(folder),
	}, nil
}

// Read is what was committed to the store in a folder, whoever has it open, or nobody. Nothing is written; a folder without a store is one of an empty fleet.
func Read(folder string) (State, error) {
	j := journalIn(folder)
	_, _, err := j.read()
	return j.state(), err
}

func journalIn(folder string) journal {
	return journal{path: filepath.Join(folder, journalName), machines: map[string]scale.InstanceRecord{}, jobs: map[string]Job{}, volumes: map[string]scale.VolumeRecord{}}
}

// Load implements Store.
func (f *file) Load() (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.journal.load()
}

// Commit implements Store.
func (f *file) Commit(c Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return os.ErrClosed
	}
	return f.journal.commit(c)
}

// Append implements Store.
func (f *file) Append(entries ...Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return os.ErrClosed
	}
	return f.history.append(entries)
}

// History implements Store.
func (f *file) History(from, to time.Time, each func(Entry) bool) error {
	return ReadHistory(f.folder, from, to, each)
}

// Close implements Store.
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return nil
	}
	err := errors.Join(f.journal.close(), f.history.close(), lockedfile.Close(f.lock))
	f.lock = nil
	return err
}
