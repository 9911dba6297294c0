package include

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/internal/wholefile"
)

// LockName is the usual name of a lock file of includes; it is in the project's .rung folder.
const LockName = "includes.lock"

// lockVersion is the version of the format. A change that old readers would misread gets a new one.
const lockVersion = 1

// maxLockSize bounds a lock file, in bytes.
const maxLockSize = 16 << 20

const lockHeader = `# What includes stood for when they were fetched. step-runner local keeps to it until it is told to --refresh. Written by it:
# changes by hand are refused or lost.
`

// The kinds of entries.
const (
	kindProject  = "project"  // a ref of a project: the pin is a commit
	kindVersion  = "version"  // a part of a version of a component: the pin is a tag
	kindRemote   = "remote"   // a web address: the pin is the digest of its bytes
	kindTemplate = "template" // one of GitLab's: the same
)

// entryKey is what was asked for.
type entryKey struct {
	Kind  string `toml:"kind"`
	Place string `toml:"place"` // without credentials
	Ref   string `toml:"ref,omitempty"`
}

func (k entryKey) String() string {
	if k.Ref == "" {
		return k.Place
	}
	if k.Kind == kindVersion {
		return k.Place + "@" + k.Ref + " (a version)"
	}
	return k.Place + "@" + k.Ref
}

// entry is what was found.
type entry struct {
	entryKey
	Pin     string `toml:"pin"`
	Content string `toml:"content,omitempty"` // the content digest of a commit's tree
}

// lockFile is a lock file of includes.
type lockFile struct {
	Version int     `toml:"version"`
	Include []entry `toml:"include"`

	changed bool
}

// readLock reads a lock file; one that is not there is empty.
func readLock(path string) (*lockFile, error) {
	root := filepath.Dir(filepath.Dir(path)) // the project's, where the file is in the folder of our own
	text, err := projectfile.Read(root, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), maxLockSize)
	if errors.Is(err, fs.ErrNotExist) {
		return &lockFile{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseLock(path, text)
}

func parseLock(name string, text []byte) (*lockFile, error) {
	var f lockFile
	dec := toml.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return nil, fmt.Errorf("%s:%d:%d: %s; remove the file to create it again", name, line, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, fmt.Errorf("%s: %w; remove the file to create it again", name, err)
	}
	if f.Version != lockVersion {
		return nil, fmt.Errorf("%s has version %d, but this program reads version %d: remove the file to create it again", name, f.Version, lockVersion)
	}
	for i, e := range f.Include {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: include %d (%s) %w: remove the file to create it again", name, i+1, e.entryKey, err)
		}
	}
	return &f, nil
}

// check says what is wrong with an entry.
func (e *entry) check() error {
	isDigest := func(text string) bool {
		sum, ok := strings.CutPrefix(text, "sha256:")
		return ok && len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == ""
	}
	switch {
	case e.Place == "":
		return errors.New("has no place")
	case e.Kind == kindProject && (!isCommit(e.Pin) || !isDigest(e.Content)):
		return errors.New("has a pin that is not a commit, or content that is not a digest")
	case e.Kind == kindVersion && !isRelease(e.Pin) && e.Pin != e.Ref:
		return errors.New("has a pin that is not a version")
	case (e.Kind == kindRemote || e.Kind == kindTemplate) && !isDigest(e.Pin):
		return errors.New("has a pin that is not a digest")
	case !slices.Contains([]string{kindProject, kindVersion, kindRemote, kindTemplate}, e.Kind):
		return fmt.Errorf("has the unknown kind %q", e.Kind)
	}
	return nil
}

// find returns the entry of a key, nil when there is none.
func (f *lockFile) find(key entryKey) *entry {
	for i := range f.Include {
		if f.Include[i].entryKey == key {
			return &f.Include[i]
		}
	}
	return nil
}

// set notes an entry.
func (f *lockFile) set(e entry) {
	old := f.find(e.entryKey)
	switch {
	case old == nil:
		f.Include = append(f.Include, e)
	case *old == e:
		return
	default:
		*old = e
	}
	f.changed = true
}

// write replaces a lock file whole. What another process has noted meanwhile stays.
func (f *lockFile) write(path string) error {
	if there, err := readLock(path); err == nil {
		for _, e := range there.Include {
			if f.find(e.entryKey) == nil {
				f.Include = append(f.Include, e)
			}
		}
	}
	text, err := f.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := wholefile.WriteText(path, 0o644, text); err != nil {
		return err
	}
	f.changed = false
	return nil
}

// encode returns the text of the file: the same entries always give the same text.
func (f *lockFile) encode() ([]byte, error) {
	sorted := lockFile{Version: lockVersion, Include: slices.Clone(f.Include)}
	slices.SortFunc(sorted.Include, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Place, b.Place), strings.Compare(a.Ref, b.Ref))
	})
	text, err := toml.Marshal(sorted)
	if err != nil {
		return nil, err
	}
	return append([]byte(lockHeader), text...), nil
}
