package config

import (
	"io/fs"
	"os"
)

// Watcher notices when a configuration changes. Its methods are not safe for concurrent use.
type Watcher struct {
	path string
	seen fs.FileInfo // nil: the file was not there
}

// Watch reads a configuration, and returns what notices its changes.
func Watch(path string) (*Watcher, *Config, error) {
	w := &Watcher{path: path}
	w.seen, _ = os.Stat(path)
	c, err := Read(path)
	return w, c, err
}

// Changed returns the configuration if the file has changed since the last call, else nil. An error leaves the old one in force; it is told once
// for each change of the file.
func (w *Watcher) Changed() (*Config, error) {
	now, err := os.Stat(w.path)
	if err != nil {
		now = nil
	}
	before := w.seen
	if w.seen = now; same(before, now) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Read(w.path)
}

// Reload reads the configuration in any case, as a signal asks for.
func (w *Watcher) Reload() (*Config, error) {
	w.seen, _ = os.Stat(w.path)
	return Read(w.path)
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
