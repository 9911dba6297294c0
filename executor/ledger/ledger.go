// Package ledger records what a process creates that outlives it, such as folders, containers and networks, before it is created.
// Whatever happens to the process, the next one can remove it or adopt it.
//
// It keeps two questions apart. Which process is alive: a ledger is a file that its process holds a lock on, and the system
// drops the lock when the process ends, in whatever way. Who owns what is in it: the file names its owner and for how long
// entries outlive the owner's process. A successor with the same name takes entries over; the others are swept when that time
// has passed.
package ledger

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine bounds an entry, in bytes.
	maxLine = 64 << 10
	// createTries is how often Open creates a file that another process sweeps before it is locked.
	createTries = 10
	suffix      = ".ledger"
)

// The first characters of lines.
const (
	header   = "=" // the lease, as JSON
	added    = "+" // an entry
	done     = "-" // an entry that is gone
	orphaned = "!" // when a sweep first found no process, in seconds since 1970
)

// errLocked says that a living process has the file.
var errLocked = errors.New("another process has the file locked")

// ErrOwned says that the process whose ledger has an entry is alive.
var ErrOwned = errors.New("the process that owns it is running")

// ErrUnknown says that no ledger has an entry.
var ErrUnknown = errors.New("the cleanup ledger does not know it")

// Lease says whose the entries of a ledger are. The zero value is a process that leaves nothing to others.
type Lease struct {
	Owner string `json:"owner,omitempty"`
	// Keep is how long entries outlive the process, in nanoseconds, counted from when its end is noticed.
	Keep time.Duration `json:"keep,omitempty"`
}

// Ledger is what this process has made and not yet removed. Its methods are safe for concurrent use.
type Ledger struct {
	folder, name string
	lease        Lease
	path         string

	mu      sync.Mutex
	file    *os.File
	entries map[string]int
}

// Open begins a ledger in folder, which is created. name is the first part of the file's name: Sweep goes through the ledgers
// of one name.
func Open(folder, name string, lease Lease) (*Ledger, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the cleanup ledger: %w", err)
	}
	if err := checkOwner(folder); err != nil {
		return nil, err
	}
	for range createTries {
		path := filepath.Join(folder, name+"-"+rand.Text()+suffix)
		file, err := createLocked(path)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot create the cleanup ledger: %w", err)
		}
		if !isAt(file, path) { // a sweep removed it before it was locked
			file.Close()
			continue
		}
		l := &Ledger{folder: folder, name: name, lease: lease, path: path, file: file, entries: map[string]int{}}
		if err := l.begin(); err != nil {
			return nil, errors.Join(err, finish(file, path, true))
		}
		return l, nil
	}
	return nil, fmt.Errorf("cannot create the cleanup ledger: other processes remove the files in %s", folder)
}

func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}

// begin records the lease.
func (l *Ledger) begin() error {
	if l.lease == (Lease{}) {
		return nil
	}
	text, err := json.Marshal(l.lease)
	if err != nil {
		return err
	}
	return recordError(writeLine(l.file, header, text))
}

func writeLine(file *os.File, sign string, text []byte) error {
	_, err := file.WriteString(sign + string(text) + "\n")
	return err
}

func recordError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot write the cleanup ledger: %w", err)
}

// Add records what is about to be made. It is on record when Add returns, even if the process is killed then.
func (l *Ledger) Add(entry string) error { return l.write(added, entry) }

// Done records that what Add named is gone, or is to stay.
func (l *Ledger) Done(entry string) error { return l.write(done, entry) }

func (l *Ledger) write(sign, entry string) error {
	quoted, err := json.Marshal([]byte(entry)) // as base64: an entry is any bytes
	if err != nil {
		return err
	}
	if len(quoted) > maxLine-2 {
		return fmt.Errorf("a ledger entry of %d bytes is too long", len(entry))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return errors.New("the cleanup ledger is closed")
	}
	if err := recordError(writeLine(l.file, sign, quoted)); err != nil {
		return err
	}
	apply(l.entries, sign, entry)
	return nil
}

func apply(entries map[string]int, sign, entry string) {
	if sign == added {
		entries[entry]++
		return
	}
	if entries[entry]--; entries[entry] <= 0 {
		delete(entries, entry)
	}
}

// Release gives an entry up to a successor with the same lease, while this process goes on.
func (l *Ledger) Release(entry string) error {
	if l.lease.Owner == "" || l.lease.Keep <= 0 {
		return errors.New("the lease ends with this process: nobody could take over")
	}
	next, err := Open(l.folder, l.name, l.lease)
	if err != nil {
		return err
	}
	return errors.Join(next.Add(entry), next.Close(), l.Done(entry))
}

// Adopt takes an entry over from a process that has ended and had the same owner. ErrOwned says that the process lives, and
// ErrUnknown that no such ledger has the entry.
func (l *Ledger) Adopt(entry string) error {
	if l.lease.Owner == "" {
		return ErrUnknown
	}
	paths, err := ledgers(l.folder, l.name)
	if err != nil {
		return err
	}
	owned := false
	for _, path := range paths {
		if path == l.path {
			continue
		}
		switch err := l.adoptFrom(path, entry); {
		case errors.Is(err, errLocked):
			owned = owned || holds(path, entry)
		case !errors.Is(err, ErrUnknown):
			return err // or nil
		}
	}
	if owned {
		return ErrOwned
	}
	return ErrUnknown
}

// holds reports whether the ledger of a living process has an entry. Systems on which it cannot be read say yes.
func holds(path, entry string) bool {
	file, err := os.Open(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	return read(file).entries[entry] > 0
}

func (l *Ledger) adoptFrom(path, entry string) error {
	file, err := openLocked(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrUnknown
	}
	if err != nil {
		return err
	}
	c := read(file)
	if c.lease.Owner != l.lease.Owner || c.entries[entry] == 0 {
		return errors.Join(ErrUnknown, finish(file, path, false))
	}
	quoted, _ := json.Marshal([]byte(entry)) // bytes cannot fail
	err = l.Add(entry)
	if err == nil {
		err = recordError(writeLine(file, done, quoted))
		delete(c.entries, entry)
	}
	return errors.Join(err, finish(file, path, err == nil && len(c.entries) == 0))
}

// Close ends the ledger. Entries that are left are for a successor, or for Sweep. Closing again does nothing.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return finish(file, l.path, len(l.entries) == 0)
}

// ledgers are the files of a name in folder.
func ledgers(folder, name string) ([]string, error) {
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the cleanup ledgers: %w", err)
	}
	if err := checkOwner(folder); err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range files {
		if f.Type().IsRegular() && strings.HasPrefix(f.Name(), name+"-") && strings.HasSuffix(f.Name(), suffix) {
			paths = append(paths, filepath.Join(folder, f.Name()))
		}
	}
	return paths, nil
}

// Sweep calls remove with every entry in the ledgers in folder, of that name, whose processes have ended and whose lease has
// run out. Entries whose removal fails are kept for another time. A folder that does not exist is not an error.
func Sweep(folder, name string, remove func(entry string) error) error {
	paths, err := ledgers(folder, name)
	problems := []error{err}
	for _, path := range paths {
		problems = append(problems, sweepFile(path, remove))
	}
	return errors.Join(problems...)
}

func sweepFile(path string, remove func(entry string) error) error {
	file, err := openLocked(path)
	if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read a cleanup ledger: %w", err)
	}
	c := read(file)
	if len(c.entries) > 0 && c.lease.Keep > 0 {
		if c.orphaned.IsZero() {
			c.orphaned = time.Now()
			err = recordError(writeLine(file, orphaned, strconv.AppendInt(nil, c.orphaned.Unix(), 10)))
		}
		if err != nil || time.Since(c.orphaned) < c.lease.Keep {
			return errors.Join(err, finish(file, path, false))
		}
	}
	var problems []error
	for _, entry := range c.order {
		if c.entries[entry] == 0 {
			continue
		}
		if err := remove(entry); err != nil {
			problems = append(problems, err)
			continue
		}
		delete(c.entries, entry)
	}
	problems = append(problems, finish(file, path, len(c.entries) == 0))
	return errors.Join(problems...)
}

// content is what a ledger says.
type content struct {
	lease    Lease
	order    []string // entries, the last one first: what was made in something goes before it
	entries  map[string]int
	orphaned time.Time // zero if no sweep has found it without a process
}

// read returns what a ledger says. A line that is cut short was not on record, and nothing was made of it yet. Reading leaves the
// file's position at its end.
func read(r io.Reader) content {
	c := content{entries: map[string]int{}}
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return c
		}
		sign, text := string(line[:1]), bytes.TrimSpace(line[1:])
		switch sign {
		case header:
			_ = json.Unmarshal(text, &c.lease) // one that is damaged has no lease
			continue
		case orphaned:
			if at, err := strconv.ParseInt(string(text), 10, 64); err == nil {
				c.orphaned = time.Unix(at, 0)
			}
			continue
		}
		var entry []byte
		if json.Unmarshal(text, &entry) != nil || sign != added && sign != done {
			continue
		}
		if sign == added && c.entries[string(entry)] == 0 {
			c.order = append([]string{string(entry)}, c.order...)
		}
		apply(c.entries, sign, string(entry))
	}
}
