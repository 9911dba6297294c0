package git

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
)

// mirror is a repository's mirror in the cache: a bare repository, which git itself can read as well, whose packed refs name
// the commits that are there with all of their files. Its lock is held while it is used. A process that is killed leaves
// files with temporary names, or objects that no ref names yet; both do no harm.
type mirror struct {
	dir     string
	commits []plumbing.Hash // that are complete, the latest last
	shallow []plumbing.Hash // whose history is not there
}

const (
	mirrorRefs = "refs/rung/"
	// maxHaves is how many commits a server is told about: the latest ones.
	maxHaves = 64
	// maxPacks is how many packs a mirror may have. Then it is made again, as to look through them all would take longer.
	maxPacks = 64
)

// openMirror opens the mirror in dir, which is made if it is not there.
func openMirror(dir string) (*mirror, error) {
	m := &mirror{dir: dir}
	packs, err := os.ReadDir(filepath.Join(dir, packsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if m.commits, err = m.list("packed-refs"); err == nil {
		m.shallow, err = m.list("shallow")
	}
	if err != nil {
		return nil, err
	}
	if len(m.commits) == 0 || len(packs) > 2*maxPacks { // nothing in it is any use
		if err := m.remove(); err != nil {
			return nil, err
		}
		packs = nil
	}
	for _, folder := range []string{packsDir, "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	for _, file := range packs {
		if strings.HasPrefix(file.Name(), "tmp_") {
			_ = os.Remove(filepath.Join(dir, packsDir, file.Name()))
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		if err := m.write("HEAD", []byte("ref: refs/heads/main\n")); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// list reads a file of which every line begins with a commit.
func (m *mirror) list(file string) ([]plumbing.Hash, error) {
	text, err := os.ReadFile(filepath.Join(m.dir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var hashes []plumbing.Hash
	for line := range strings.Lines(string(text)) {
		if hash, _, _ := strings.Cut(strings.TrimSpace(line), " "); isCommitName(hash) {
			hashes = append(hashes, plumbing.NewHash(hash))
		}
	}
	return hashes, nil
}

// write replaces a file.
func (m *mirror) write(file string, text []byte) error {
	f, err := os.CreateTemp(filepath.Join(m.dir, packsDir), temporaryPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(m.dir, file))
}

// has reports whether a commit is there.
func (m *mirror) has(commit plumbing.Hash) bool { return slices.Contains(m.commits, commit) }

// order is what to ask a server for to get something that is not there.
func (m *mirror) order(want plumbing.Hash) *order {
	o := &order{wants: []plumbing.Hash{want}, depth: 1}
	o.haves = slices.Clone(m.commits[max(0, len(m.commits)-maxHaves):])
	for _, h := range m.shallow {
		if slices.Contains(o.haves, h) {
			o.shallow = append(o.shallow, h)
		}
	}
	return o
}

// add notes that a commit is there, and of which commits the history is not. What it says about histories may claim less
// than there is, but not more.
func (m *mirror) add(commit plumbing.Hash, shallow []plumbing.Hash) error {
	for _, h := range shallow {
		if !slices.Contains(m.shallow, h) {
			m.shallow = append(m.shallow, h)
		}
	}
	var text bytes.Buffer
	for _, h := range m.shallow {
		text.WriteString(h.String() + "\n")
	}
	if err := m.write("shallow", text.Bytes()); err != nil {
		return err
	}
	if !m.has(commit) {
		m.commits = append(m.commits, commit)
	}
	text.Reset()
	for _, h := range m.commits {
		text.WriteString(h.String() + " " + mirrorRefs + h.String() + "\n")
	}
	return m.write("packed-refs", text.Bytes())
}

// objects opens what is there now.
func (m *mirror) objects() (*objects, error) { return openObjects(osfs.New(m.dir), m.dir) }

// remove throws everything away.
func (m *mirror) remove() error {
	m.commits, m.shallow = nil, nil
	return os.RemoveAll(m.dir)
}
