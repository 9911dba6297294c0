package store

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/wholefile"
)

// files are what a store is in: small files by names with slashes, each written as a whole.
type files interface {
	// read returns a file. The error wraps fs.ErrNotExist if there is none.
	read(name string) ([]byte, error)
	// write writes a file, which outlives this process; synced is that it outlives a loss of power, too.
	write(name string, content []byte, synced bool) error
	// remove removes a file, or a folder that is empty.
	remove(name string) error
	// list returns the names of what is in a folder.
	list(folder string) ([]string, error)
	// begin makes a folder.
	begin(folder string) error
	// where names a file for people.
	where(name string) string
}

// inFolder are files of a folder.
type inFolder string

func (f inFolder) where(name string) string {
	return filepath.Join(string(f), filepath.FromSlash(name))
}

func (f inFolder) read(name string) ([]byte, error) { return os.ReadFile(f.where(name)) }

func (f inFolder) write(name string, content []byte, synced bool) error {
	if synced {
		return wholefile.WriteSynced(f.where(name), 0o600, content)
	}
	return wholefile.WriteText(f.where(name), 0o600, content)
}

func (f inFolder) remove(name string) error { return os.Remove(f.where(name)) }

func (f inFolder) begin(folder string) error { return os.Mkdir(f.where(folder), 0o700) }

func (f inFolder) list(folder string) ([]string, error) {
	entries, err := os.ReadDir(f.where(folder))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// State is what hosts share.
type State = sharedstate.State

// identityName is the value that names all managers of a state to the environments of their jobs.
const identityName = "identity"

// Identity is what managers of a state are called, whatever host they are on.
func Identity(state *State) (string, error) {
	if name, ok := state.Get(identityName); ok {
		return string(name), nil
	}
	name := rand.Text()
	return name, state.Commit(map[string][]byte{identityName: []byte(name)})
}

// statePrefix begins the names of a store's values in a shared state.
const statePrefix = "manager/"

// inState are values of a shared state.
type inState struct{ state *sharedstate.State }

func (f inState) where(name string) string { return "shared state: " + statePrefix + name }

func (f inState) read(name string) ([]byte, error) {
	content, ok := f.state.Get(statePrefix + name)
	if !ok {
		return nil, fmt.Errorf("%s: %w", f.where(name), fs.ErrNotExist)
	}
	return content, nil
}

func (f inState) write(name string, content []byte, _ bool) error {
	return f.state.Commit(map[string][]byte{statePrefix + name: content})
}

func (f inState) remove(name string) error {
	if _, ok := f.state.Get(statePrefix + name); !ok {
		return fs.ErrNotExist
	}
	return f.state.Commit(map[string][]byte{statePrefix + name: nil})
}

func (f inState) begin(string) error { return nil }

func (f inState) list(folder string) (names []string, _ error) {
	prefix := statePrefix + folder + "/"
	last := ""
	for _, name := range f.state.Names(prefix) { // sorted
		name, _, _ = strings.Cut(strings.TrimPrefix(name, prefix), "/")
		if name != last {
			names, last = append(names, name), name
		}
	}
	return names, nil
}
