package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/tree"
)

// MaxFileSize bounds a definition file, in bytes.
const MaxFileSize = 64 << 20

// Local is the Source of components in local directories.
type Local struct {
	// Parse turns the text of a definition file into a plan; name is used in diagnostics.
	Parse func(name string, text []byte) (*plan.Component, error)
	// ParseAction does so for the metadata file of a GitHub Action (action.yml); nil when actions cannot be run.
	ParseAction func(name string, text []byte) (*plan.Component, error)
	// ParseFetchedAction does so for one that was fetched; nil is ParseAction.
	ParseFetchedAction func(name string, text []byte) (*plan.Component, error)
	// WorkDir is where the job runs, absolute. A folder that contains it is the job's project and no component.
	WorkDir string

	mu      sync.Mutex
	known   map[definition]cached
	digests map[string]digested // of folders
}

// definition is a definition file, and what it is read as.
type definition struct {
	path            string
	action, fetched bool
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
		anchored, err := anchored(ref, l.WorkDir)
		if err != nil {
			return nil, err
		}
		if ref = anchored; isImage(ref) {
			return l.image(ref, from)
		} else if !ref.IsLocal() {
			return nil, &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
		}
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
		component, err := l.read(definition{path, ref.Kind == plan.RefAction, false})
		if errors.Is(err, fs.ErrNotExist) {
			missing.Looked = append(missing.Looked, path)
			continue
		}
		if err != nil {
			return nil, err
		}
		found := *component
		found.Ref, found.Digest = ref.Text, l.digest(component)
		return &found, nil
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		missing.Err = fmt.Errorf("%s is not a directory", dir)
	}
	return nil, missing
}

// Check implements Checker: nothing is fetched from elsewhere.
func (l *Local) Check(ref *plan.Reference, _ string) error {
	if ref.Kind == plan.RefDynamic || ref.IsLocal() || isImage(ref) {
		return nil
	}
	return &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
}

func (l *Local) read(from definition) (*Component, error) {
	path, parse := from.path, l.Parse
	if from.action {
		parse = l.ParseAction
	}
	if from.action && from.fetched && l.ParseFetchedAction != nil {
		parse = l.ParseFetchedAction
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
		Plan: parsed,
		Dir:  filepath.Dir(path),
		File: filepath.Base(path),
		Text: text,
	}
	if l.known == nil {
		l.known = map[definition]cached{}
	}
	l.known[from] = cached{info, component}
	return component, nil
}

// Limits of a local component. Beyond them its digest is that of the definition file alone.
const (
	MaxLocalFiles = 5000
	MaxLocalSize  = 64 << 20 // of all files in its folder, in bytes
)

// digested is the content digest of a folder, and the state it was computed for.
type digested struct {
	state  map[string]fileState
	digest string
}

// digest returns a local component's content digest: that of its folder, or of the definition file alone where the folder is
// more than the component.
func (l *Local) digest(c *Component) string {
	alone := tree.FileDigest(c.File, c.Text)
	if rel, err := filepath.Rel(c.Dir, l.WorkDir); l.WorkDir != "" && err == nil && filepath.IsLocal(rel) {
		return alone
	}
	state, err := localState(c.Dir)
	if err != nil {
		return alone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.digests[c.Dir]; ok && maps.Equal(known.state, state) {
		return known.digest
	}
	digest, err := tree.Digest(c.Dir)
	if err != nil {
		return alone
	}
	if l.digests == nil {
		l.digests = map[string]digested{}
	}
	l.digests[c.Dir] = digested{state, digest}
	return digest
}

var errMuch = errors.New("more than a local component")

// localState is the state of a component's folder. What is too much for a component is an error.
func localState(dir string) (map[string]fileState, error) {
	state, size := map[string]fileState{}, int64(0)
	err := tree.Walk(dir, func(name string, info fs.FileInfo) error {
		state[name] = stateOfFile(info)
		if size += info.Size(); size > MaxLocalSize || len(state) > MaxLocalFiles {
			return errMuch
		}
		return nil
	})
	return state, err
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
