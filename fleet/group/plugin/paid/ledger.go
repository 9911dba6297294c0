// Package paid tries instance groups whose instances cost money: what is asked for is in a ledger before it is asked for, no more is spent than a cap, and what a
// killed process has left is ended by the next one.
//
//	the suite ──> Group ──create──> Ledger ──> the plugin      Clean: Ledger ──> owners of whom something may be left ──> List, Decrease
package paid

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/internal/lockedfile"
)

var (
	// ErrNoPrice says that it is not known what instances cost.
	ErrNoPrice = errors.New("the plugin says no price")
	// ErrCap says that a request would cost more than may be spent.
	ErrCap = errors.New("it would cost more than --max-cost allows")
	// ErrOther says that the options of now lead to another group than the one that something is left of.
	ErrOther = errors.New("the options are those of another group")
)

// The files of a ledger, in its folder.
const (
	ledgerFile   = "ledger.jsonl"
	lockFile     = "lock"
	statesFolder = "states" // of owners
)

// lockTime is how long another process may take to end, and lockPause is that between two looks.
const (
	lockTime  = 10 * time.Second
	lockPause = 50 * time.Millisecond
)

// Ledger is what may cost money. One process has it at a time.
type Ledger struct {
	folder string
	lock   *os.File
	file   *os.File

	mu   sync.Mutex
	book book
}

// Open opens the ledger in a folder, which is made. It waits a moment for a process that is about to end.
func Open(ctx context.Context, folder string) (_ *Ledger, err error) {
	if err := os.MkdirAll(filepath.Join(folder, statesFolder), 0o700); err != nil {
		return nil, err
	}
	l := &Ledger{folder: folder}
	for until := time.Now().Add(lockTime); ; {
		if l.lock, err = lockedfile.Open(filepath.Join(folder, lockFile)); !errors.Is(err, lockedfile.ErrInUse) {
			break
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("another test with the ledger in %s runs: %w", folder, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
	if err == nil {
		err = l.read()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the ledger in %s: %w", folder, err), l.Close())
	}
	return l, nil
}

// read reads what is there. A last line that is torn was never acted upon, and is cut off.
func (l *Ledger) read() error {
	path := filepath.Join(l.folder, ledgerFile)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for number, line := range bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d cannot be read; look for its instances in the cloud, and remove the file %s: %w", number+1, path, err)
		}
		l.book.apply(e)
	}
	if l.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(whole)))
}

// add writes an entry, and returns when it is on the disk.
func (l *Ledger) add(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(e)
}

// write is add for who holds the lock.
func (l *Ledger) write(e Entry) error {
	e.At = time.Now().UTC()
	text, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("the ledger cannot be written, without which nothing is made: %w", err)
	}
	l.book.apply(e)
	return nil
}

// Cost is what all has cost at most, if what may exist now exists for that much longer.
func (l *Ledger) Cost(longer time.Duration) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.cost(time.Now().Add(longer))
}

// Empty reports whether nothing is in it.
func (l *Ledger) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.book.owners) == 0
}

// State makes the folder of an owner, for what its group keeps. It outlives the process.
func (l *Ledger) State(owner string) (string, error) {
	folder := filepath.Join(l.folder, statesFolder, owner)
	return folder, os.MkdirAll(folder, 0o700)
}

// Close gives it to other processes.
func (l *Ledger) Close() error {
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	if l.lock != nil {
		err = errors.Join(err, lockedfile.Close(l.lock))
	}
	return err
}

// Reset begins anew, once nothing is left.
func (l *Ledger) Reset() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.book.left(); len(left) > 0 {
		return fmt.Errorf("something may be left of %d cases", len(left))
	}
	l.book = book{}
	return errors.Join(l.file.Truncate(0), os.RemoveAll(filepath.Join(l.folder, statesFolder)))
}
