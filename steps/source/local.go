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
	"strings"
	"sync"

	"github.com/rungci/rung/steps/plan"
)

// MaxFileSize bounds a definition file, in bytes.
const MaxFileSize = 64 << 20

// Local is the Source of components in local directories.
type Local struct {
	// Parse turns the text of a definition file into a plan; name is used in diagnostics.
	Parse func(name string, text []byte) (*plan.Component, error)
	// ParseAction does so for the metadata file of a GitHub Action (action.yml); nil when actions cannot be run.
	ParseAction func(name string, text []byte) (*plan.Component, error)

	mu    sync.Mutex
	known map[file]cached
}

// file is a definition file, and what it is read as.
type file struct {
	path   string
	action bool
}

// cached is a parsed file and the state of the file when it was read, so that a step may rewrite a definition that a later
// step runs.
type cached struct {
	info      fs.FileInfo
	component *Component
}

// Load implements Source.
func (l *Local) Load(_ context.Context, ref *plan.Reference, from string) (*Component, error) {
	dir, names := filepath.Join(ref.Path...), []string{ref.File}
	switch {
	case ref.Kind == plan.RefAction:
		if err := l.checkAction(ref); err != nil {
			return nil, err
		}
		dir, names = filepath.FromSlash(ref.Action), actionFiles
	case ref.Kind != plan.RefLocal:
		return nil, &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
	case ref.File == "":
		names = []string{plan.DefaultFile, plan.FallbackFile}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(from, dir)
	}
	missing := &NotFoundError{Ref: ref.Text}
	for _, name := range names {
		path := filepath.Join(dir, name)
		component, err := l.read(file{path, ref.Kind == plan.RefAction})
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

// actionFiles are the names that the metadata file of an action can have.
var actionFiles = []string{"action.yml", "action.yaml"}

// checkAction says why an action is none that stands in a local directory.
func (l *Local) checkAction(ref *plan.Reference) error {
	switch {
	case strings.HasPrefix(ref.Action, "docker://"):
		return errors.New("it is a container image, and this version of step-runner has no containers to run actions in: it runs JavaScript and composite actions")
	case l.ParseAction == nil || !strings.HasPrefix(ref.Action, "./") && !filepath.IsAbs(ref.Action):
		return &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
	}
	return nil
}

func (l *Local) read(from file) (*Component, error) {
	path, parse := from.path, l.Parse
	if from.action {
		parse = l.ParseAction
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.known[from]; ok && os.SameFile(c.info, info) && c.info.ModTime().Equal(info.ModTime()) && c.info.Size() == info.Size() {
		return c.component, nil
	}
	text, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(path, text)
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
		l.known = map[file]cached{}
	}
	l.known[from] = cached{info, component}
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
