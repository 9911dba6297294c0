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
	"slices"
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

// ErrElsewhere is for the function of Sweep to return: the entry is for those who use another engine, cluster or host. It is kept.
var ErrElsewhere = errors.New("made elsewhere")

// Lease says whose the entries of a ledger are. The zero value is a process that leaves nothing to others.
type Lease struct {
	Owner string `json:"owner,omitempty"`
	// Keep is how long entries outlive the process, in nanoseconds, counted from when its end is noticed.
	Keep time.Duration `json:"keep,omitempty"`
	// Elsewhere lets Adopt take over what no ledger in the folder has: the owner's process before had a ledger on another host, and has ended.
	Elsewhere bool `json:"-"`
}

// Ledger is what this process has made and not yet removed. Its methods are safe for concurrent use.
type Ledger struct {
	folder, name string
	lease        Lease
	path         string

	adopting sync.Mutex // before mu

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

// Adopt takes entries over from processes that have ended and had the same owner: all of them, or none. ErrOwned says that such a process
// lives, or seems to for a moment, and ErrUnknown that no ledger has one of them, unless the lease says Elsewhere.
func (l *Ledger) Adopt(entries ...string) (err error) {
	if l.lease.Owner == "" {
		return ErrUnknown
	}
	l.adopting.Lock()
	defer l.adopting.Unlock()
	paths, err := ledgers(l.folder, l.name)
	if err != nil {
		return err
	}
	var from []*ended
	defer func() {
		for _, e := range from {
			err = errors.Join(err, finish(e.file, e.path, len(e.entries) == 0))
		}
	}()
	known := map[string]bool{}
	for _, path := range paths {
		if path == l.path {
			continue
		}
		e, err := l.ended(path, entries)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		from = append(from, e)
		for _, entry := range entries {
			known[entry] = known[entry] || e.entries[entry] > 0
		}
	}
	for _, entry := range entries {
		if !known[entry] && !l.lease.Elsewhere {
			return ErrUnknown
		}
	}
	for _, entry := range entries {
		if err := l.Add(entry); err != nil {
			return err
		}
		quoted, _ := json.Marshal([]byte(entry)) // bytes cannot fail
		for _, e := range from {                 // a process that was killed here has left it in two
			if e.entries[entry] == 0 {
				continue
			}
			if err := writeLine(e.file, done, quoted); err != nil {
				return recordError(err)
			}
			delete(e.entries, entry)
		}
	}
	return nil
}

// ended is the ledger of a process that has ended. It is locked.
type ended struct {
	content
	file *os.File
	path string
}

// ended opens a ledger that has one of the entries, if its process has ended and had the same owner; nil is any other.
func (l *Ledger) ended(path string, entries []string) (*ended, error) {
	file, err := openLocked(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, errLocked) && holds(path, entries):
		return nil, ErrOwned
	case errors.Is(err, errLocked):
		return nil, nil
	case err != nil:
		return nil, err
	}
	c := read(file)
	if c.lease.Owner != l.lease.Owner || !c.have(entries) {
		return nil, finish(file, path, false)
	}
	return &ended{c, file, path}, nil
}

// holds reports whether the ledger of a living process has one of the entries. Systems on which it cannot be read say yes.
func holds(path string, entries []string) bool {
	file, err := os.Open(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	c := read(file)
	return c.have(entries)
}

// have reports whether one of the entries is there.
func (c *content) have(entries []string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return c.entries[entry] > 0 })
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
		if f.Type().IsRegular() && (name == "" || strings.HasPrefix(f.Name(), name+"-")) && strings.HasSuffix(f.Name(), suffix) {
			paths = append(paths, filepath.Join(folder, f.Name()))
		}
	}
	return paths, nil
}

// Sweep calls remove with every entry in the ledgers in folder, of that name, whose processes have ended and whose lease has
// run out. Entries whose removal fails are kept for another time, without an error those of ErrElsewhere. A folder that does not exist is not an error.
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
		switch err := remove(entry); {
		case err == nil:
			delete(c.entries, entry)
		case !errors.Is(err, ErrElsewhere):
			problems = append(problems, err)
		}
	}
	problems = append(problems, finish(file, path, len(c.entries) == 0))
	return errors.Join(problems...)
}

// Expire ends the leases of an owner's processes that have ended: what they have left, and nobody has adopted, goes with the next Sweep of its
// level. A folder that does not exist is not an error.
func Expire(folder, owner string) error {
	paths, err := ledgers(folder, "")
	problems := []error{err}
	for _, path := range paths {
		file, err := openLocked(path)
		if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("cannot read a cleanup ledger: %w", err))
			continue
		}
		if c := read(file); c.lease.Owner == owner {
			problems = append(problems, recordError(writeLine(file, orphaned, []byte("0"))))
		}
		problems = append(problems, finish(file, path, false))
	}
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
