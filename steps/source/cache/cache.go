// Package cache keeps what was fetched in the user's cache folder, for all processes of that user.
//
// What the pins and names say is believed only if it was written with the user's key, which is not in the cache: see Keyed.
//
//	packages/<digest>.tar   a package each, named by its content digest, verified whenever it is read
//	trees/<digest>/         a package unpacked, to be read only; verified whenever a run first uses it
//	pins/<hash>.json        which package a pin (a commit, a manifest, an archive) holds
//	names/<hash>.json       what a name (a tag, a branch, an address) pointed to, and when that was asked
//	git/<hash>/             a mirror of one repository
//	downloads/<hash>        what a download that broke off has so far
//	locks/                  locks between processes
//	tidied                  its time says when Prune last ran by itself
//
// Everything can be removed at any time. Files are written under other names and moved into place, so that a process that is
// killed leaves nothing half done, and readers need no lock.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/source/tree"
)

// Cache is one cache folder. It is safe for concurrent use, also by several processes.
type Cache struct {
	dir   string
	files files
}

// New returns the cache in dir, which is made when something is first put into it.
func New(dir string) *Cache { return &Cache{dir: dir, files: files{dir: dir}} }

// Keyed returns the cache in dir, of which pins and names are believed only if whoever wrote them had the key. Others could make a name or a
// commit mean any code: they are as if they were not there.
func Keyed(dir string, key []byte) *Cache {
	c := New(dir)
	c.files.key = key
	return c
}

// Dir is the cache's folder.
func (c *Cache) Dir() string { return c.dir }

// The cache's own folders.
const (
	packagesDir  = "packages"
	pinsDir      = "pins"
	namesDir     = "names"
	mirrorsDir   = "git"
	downloadsDir = "downloads"
	locksDir     = "locks"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = "new-"

// key turns any text into a file name.
func key(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// packagePath is where the package with a content digest is, or would be.
func (c *Cache) packagePath(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is not a content digest", digest)
	}
	return filepath.Join(c.dir, packagesDir, sum+".tar"), nil
}

// Open opens a package for tree.Extract, which verifies it. An error that is fs.ErrNotExist says that it is not cached.
func (c *Cache) Open(digest string) (*os.File, error) {
	path, err := c.packagePath(digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err == nil {
		touch(path)
	}
	return f, err
}

// touchAfter is how old the time of the last use may be: to set it again on every use would cost more than it tells.
const touchAfter = time.Hour

// touch notes that a file was used; Prune goes by it.
func touch(path string) {
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > touchAfter {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
}

// Put stores the package that fill packs, and returns its content digest.
func (c *Cache) Put(fill func(*tree.Writer) error) (digest string, err error) {
	dir, err := c.files.folder(packagesDir)
	if err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	w := tree.NewWriter(temp)
	if err := fill(w); err != nil {
		return "", err
	}
	if digest, err = w.Close(); err != nil {
		return "", err
	}
	if err := temp.Close(); err != nil {
		return "", err
	}
	path, err := c.packagePath(digest)
	if err != nil {
		return "", err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return "", err
	}
	c.tidy()
	return digest, nil
}

// Remove takes a package out, because it turned out to be damaged.
func (c *Cache) Remove(digest string) error {
	path, err := c.packagePath(digest)
	if err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// pinned is what a file in pins holds.
type pinned struct {
	Of     []string `json:"of"`
	Digest string   `json:"digest"`
	MAC    string   `json:"mac,omitempty"`
}

// Pinned returns the content digest of the package that a pin holds. What makes a pin unique are all of its parts: the kind
// of source, the pin itself, the platform. It is "" when the cache does not know.
func (c *Cache) Pinned(parts ...string) (digest string) {
	path := filepath.Join(c.dir, pinsDir, key(parts...)+".json")
	var p pinned
	if readJSON(path, &p) != nil || !slices.Equal(p.Of, parts) || !c.files.wrote(pinsDir, p.MAC, p.signed()) {
		return ""
	}
	touch(path)
	return p.Digest
}

// SetPinned remembers which package a pin holds.
func (c *Cache) SetPinned(digest string, parts ...string) error {
	p := pinned{Of: parts, Digest: digest}
	p.MAC = c.files.mac(pinsDir, p.signed())
	return c.files.writeJSON(pinsDir, key(parts...), p)
}

// signed is what the code of an entry is over.
func (p pinned) signed() []string { return append([]string{p.Digest}, p.Of...) }

// Name is what a name pointed to when its server was last asked.
type Name struct {
	Of   []string  `json:"of"`
	Pin  string    `json:"pin"`
	Time time.Time `json:"time"`
	MAC  string    `json:"mac,omitempty"`
}

func (n Name) signed() []string {
	return append([]string{n.Pin, n.Time.Format(time.RFC3339Nano)}, n.Of...)
}

// Name returns what the name pointed to; ok is false when the cache does not know.
func (c *Cache) Name(parts ...string) (name Name, ok bool) {
	err := readJSON(filepath.Join(c.dir, namesDir, key(parts...)+".json"), &name)
	return name, err == nil && slices.Equal(name.Of, parts) && name.Pin != "" && c.files.wrote(namesDir, name.MAC, name.signed())
}

// SetName remembers what a name points to now.
func (c *Cache) SetName(pin string, parts ...string) error {
	n := Name{Of: parts, Pin: pin, Time: time.Now().UTC().Round(0)}
	n.MAC = c.files.mac(namesDir, n.signed())
	return c.files.writeJSON(namesDir, key(parts...), n)
}

// Mirror returns the folder for the mirror of a repository. It may not exist yet; hold Lock("git", url) while using it.
func (c *Cache) Mirror(url string) (dir string, err error) {
	parent, err := c.files.folder(mirrorsDir)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(parent, key(url))
	touch(dir)
	return dir, nil
}

// Download returns the file for what a download has so far. Hold Lock("download", url) while using it.
func (c *Cache) Download(url string) (path string, err error) {
	dir, err := c.files.folder(downloadsDir)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, key(url)), nil
}

// mirrorLock begins the names of the locks of mirrors.
const mirrorLock = "git-"

// lockName is the name of the file of a lock. For a mirror it ends with the name of the mirror's folder, so that who finds the
// folder can lock it without knowing what it is a mirror of.
func lockName(parts []string) string { return parts[0] + "-" + key(strings.Join(parts[1:], " ")) }

// Lock keeps other processes, and other goroutines, from the same thing until unlock is called. A process that is killed lets
// go of its locks. It waits until ctx ends.
func (c *Cache) Lock(ctx context.Context, parts ...string) (unlock func(), err error) {
	return c.files.lock(ctx, lockName(parts))
}
