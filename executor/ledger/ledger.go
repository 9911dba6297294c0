// Package ledger writes down what a process makes that outlives it: folders, containers, networks. It does so before they
// are made, so that whatever happens to the process, the next one can remove them.
//
// A ledger is a file that its process holds a lock on, in a folder where those of all processes are. The system drops the
// lock when the process ends, in whatever way: a file that can be locked is that of a dead process.
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
	"strings"
	"sync"
)

const (
	// maxLine bounds an entry, in bytes.
	maxLine = 64 << 10
	// createTries is how often Open makes a file that a sweep of another process takes for a dead one's before it is locked.
	createTries = 10
	suffix      = ".ledger"
)

// errLocked says that a living process has the file.
var errLocked = errors.New("another process has the file locked")

// Ledger is what this process has made and not yet removed. Its methods are safe for concurrent use.
type Ledger struct {
	path string

	mu      sync.Mutex
	file    *os.File
	entries map[string]int
}

// Open begins a ledger in folder, which is made. name is the first part of the file's name: Sweep goes through the ledgers of
// one name.
func Open(folder, name string) (*Ledger, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for what is to be cleaned up: %w", err)
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
			return nil, fmt.Errorf("writing down what is to be cleaned up: %w", err)
		}
		if !isAt(file, path) { // a sweep was there between the making and the lock
			file.Close()
			continue
		}
		return &Ledger{path: path, file: file, entries: map[string]int{}}, nil
	}
	return nil, fmt.Errorf("writing down what is to be cleaned up: other processes remove the files in %s", folder)
}

func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}

// Add writes down what is about to be made. It is on record when Add returns, even if the process is killed then.
func (l *Ledger) Add(entry string) error { return l.write("+", entry) }

// Done writes down that what Add named is gone, or is to stay.
func (l *Ledger) Done(entry string) error { return l.write("-", entry) }

func (l *Ledger) write(sign, entry string) error {
	quoted, err := json.Marshal([]byte(entry)) // as base64: an entry is any bytes
	if err != nil {
		return err
	}
	line := sign + string(quoted) + "\n"
	if len(line) > maxLine {
		return fmt.Errorf("an entry of %d bytes is too long", len(entry))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return errors.New("the ledger is closed")
	}
	if _, err := l.file.WriteString(line); err != nil {
		return fmt.Errorf("writing down what is to be cleaned up: %w", err)
	}
	apply(l.entries, sign, entry)
	return nil
}

func apply(entries map[string]int, sign, entry string) {
	if sign == "+" {
		entries[entry]++
		return
	}
	if entries[entry]--; entries[entry] <= 0 {
		delete(entries, entry)
	}
}

// Close ends the ledger. What is still in it is left to Sweep. Closing again does nothing.
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

// Sweep calls remove with every entry in the ledgers in folder, of that name, whose processes have ended. Entries whose
// removal fails are kept for another time. A folder that is not there is no error.
func Sweep(folder, name string, remove func(entry string) error) error {
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for what is to be cleaned up: %w", err)
	}
	if err := checkOwner(folder); err != nil {
		return err
	}
	var problems []error
	for _, f := range files {
		if !f.Type().IsRegular() || !strings.HasPrefix(f.Name(), name+"-") || !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		problems = append(problems, sweepFile(filepath.Join(folder, f.Name()), remove))
	}
	return errors.Join(problems...)
}

func sweepFile(path string, remove func(entry string) error) error {
	file, err := openLocked(path)
	if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for what is to be cleaned up: %w", err)
	}
	order, entries := read(file)
	var problems []error
	for _, entry := range order {
		if entries[entry] == 0 {
			continue
		}
		if err := remove(entry); err != nil {
			problems = append(problems, err)
			continue
		}
		delete(entries, entry)
	}
	problems = append(problems, finish(file, path, len(entries) == 0))
	return errors.Join(problems...)
}

// read returns the entries in the order in which they were made, last first: what was made in something goes before it.
// A line that is cut short was not on record, and nothing was made of it yet.
func read(r io.Reader) (order []string, entries map[string]int) {
	entries = map[string]int{}
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return order, entries
		}
		sign, quoted := string(line[:1]), bytes.TrimSpace(line[1:])
		var entry []byte
		if json.Unmarshal(quoted, &entry) != nil {
			continue
		}
		if sign == "+" && entries[string(entry)] == 0 {
			order = append([]string{string(entry)}, order...)
		}
		apply(entries, sign, string(entry))
	}
}
