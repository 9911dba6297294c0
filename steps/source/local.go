package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/rungci/rung/steps/plan"
)

// MaxFileSize bounds a definition file, in bytes.
const MaxFileSize = 64 << 20

// Local is the Source of components in local directories.
type Local struct {
	// Parse turns the text of a definition file into a plan; name is used in diagnostics.
	Parse func(name string, text []byte) (*plan.Component, error)

	mu    sync.Mutex
	known map[string]cached
}

// cached is a parsed file and the state of the file when it was read, so that a step may rewrite a definition that a later
// step runs.
type cached struct {
	info      fs.FileInfo
	component *Component
}

// Load implements Source.
func (l *Local) Load(_ context.Context, ref *plan.Reference, from string) (*Component, error) {
	if ref.Kind != plan.RefLocal {
		return nil, &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
	}
	dir := filepath.Join(ref.Path...)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(from, dir)
	}
	names := []string{ref.File}
	if ref.File == "" {
		names = []string{plan.DefaultFile, plan.FallbackFile}
	}
	missing := &NotFoundError{Ref: ref.Text}
	for _, name := range names {
		path := filepath.Join(dir, name)
		component, err := l.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			missing.Looked = append(missing.Looked, path)
			continue
		}
		if err != nil {
			return nil, err
		}
		found := *component
		found.Ref = ref.Text
		return &found, nil
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		missing.Err = fmt.Errorf("%s is not a directory", dir)
	}
	return nil, missing
}

func (l *Local) read(path string) (*Component, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.known[path]; ok && os.SameFile(c.info, info) && c.info.ModTime().Equal(info.ModTime()) && c.info.Size() == info.Size() {
		return c.component, nil
	}
	text, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := l.Parse(path, text)
	if err != nil {
		return nil, err
	}
	component := &Component{
		Plan:   parsed,
		Dir:    filepath.Dir(path),
		File:   filepath.Base(path),
		Digest: Digest(text),
		Text:   text,
	}
	if l.known == nil {
		l.known = map[string]cached{}
	}
	l.known[path] = cached{info, component}
	return component, nil
}

// Digest returns the digest of a definition's text, as traces record it.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ReadFile reads a definition file of at most MaxFileSize bytes. A directory, a device and a larger file are errors that
// say so.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory; name the definition file in it", path)
	case info.Mode()&(fs.ModeDevice|fs.ModeSocket) != 0:
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(text) > MaxFileSize {
		return nil, fmt.Errorf("%s is larger than %d MiB, the limit for a definition", path, MaxFileSize>>20)
	}
	return text, nil
}
