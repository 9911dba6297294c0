package fleet

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/wholefile"
)

const (
	// SharedPrefix begins the names of fleets in a shared state, each followed by the name of its folder.
	SharedPrefix = "fleets/"
	filesPrefix  = "files/"
	// machinesPrefix is that of store.Shared.
	machinesPrefix = "machines/"
	// maxShared bounds a file that is shared, in bytes.
	maxShared = 1 << 20
)

// files are the small files of a fleet's folder that its next manager needs, on whatever host: what groups have kept, such as keys, and host keys of machines.
type files struct {
	state  *sharedstate.State
	prefix string // of their names in the state
	folder string
}

// wanted are the files on this host, by their names with slashes.
func (f *files) wanted() (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, pattern := range []string{filepath.Join(groupFolder, "*", "*.json"), filepath.Join(keysFolder, "*")} {
		paths, err := filepath.Glob(filepath.Join(escaped.Replace(f.folder), pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || info.Size() > maxShared {
				continue
			}
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // just now
			}
			if err != nil {
				return nil, err
			}
			name, _ := filepath.Rel(f.folder, path) // it is in there
			found[filepath.ToSlash(name)] = content
		}
	}
	return found, nil
}

// restore makes the files what the state has.
func (f *files) restore() error {
	there, err := f.wanted()
	if err != nil {
		return err
	}
	for name := range there {
		if _, ok := f.state.Get(f.prefix + name); !ok {
			if err := os.Remove(f.path(name)); err != nil {
				return err
			}
		}
	}
	for _, full := range f.state.Names(f.prefix) {
		name := strings.TrimPrefix(full, f.prefix)
		content, _ := f.state.Get(full)
		if !filepath.IsLocal(filepath.FromSlash(name)) || bytes.Equal(content, there[name]) && there[name] != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
			return err
		}
		if err := wholefile.WriteText(f.path(name), 0o600, content); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) path(name string) string { return filepath.Join(f.folder, filepath.FromSlash(name)) }

// changes are what differs from the state.
func (f *files) changes() map[string][]byte {
	there, err := f.wanted()
	if err != nil {
		return nil // the next commit has it
	}
	changed := map[string][]byte{}
	for name, content := range there {
		if kept, ok := f.state.Get(f.prefix + name); !ok || !bytes.Equal(kept, content) {
			changed[f.prefix+name] = content
		}
	}
	for _, full := range f.state.Names(f.prefix) {
		if _, ok := there[strings.TrimPrefix(full, f.prefix)]; !ok {
			changed[full] = nil
		}
	}
	return changed
}
