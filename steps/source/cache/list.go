package cache

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Kind is what an entry of the cache is.
type Kind string

// The kinds of entries.
const (
	Package  Kind = "package"
	Mirror   Kind = "mirror"
	Download Kind = "download" // one that broke off
	Unpacked Kind = "unpacked" // a package as runs read it
)

// Entry is something in the cache that takes room.
type Entry struct {
	Kind Kind `json:"kind"`
	// Name is a package's content digest, "sha256:…", packed or unpacked; of others the name of their file or folder.
	Name string    `json:"name"`
	Size int64     `json:"size"` // in bytes
	Used time.Time `json:"used"` // to the hour
	// From are the places that a package is known to be from: "https://host/project@v1", or a pin where no name leads to it.
	From []string `json:"from,omitempty"`

	path string
}

// List returns what is in the cache, what was used last first. A cache that is not there is empty.
func (c *Cache) List() ([]Entry, error) {
	from := c.origins()
	var entries []Entry
	for _, of := range []struct {
		dir  string
		kind Kind
	}{{packagesDir, Package}, {mirrorsDir, Mirror}, {downloadsDir, Download}, {treesDir, Unpacked}} {
		files, err := c.files.entries(of.dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil {
				continue // another process removed it
			}
			e := Entry{Kind: of.kind, Name: file.Name(), Size: info.Size(), Used: info.ModTime().UTC(), path: filepath.Join(c.dir, of.dir, file.Name())}
			if file.IsDir() {
				e.Size, e.Used = sizeOf(e.path, e.Used)
			}
			if of.kind == Package {
				sum, ok := strings.CutSuffix(file.Name(), ".tar")
				if e.Name = "sha256:" + sum; !ok {
					continue // one that is being made
				}
				e.From = from[e.Name]
			}
			if of.kind == Unpacked {
				if e.Name = "sha256:" + file.Name(); strings.HasPrefix(file.Name(), tempPrefix) {
					continue
				}
				e.From = from[e.Name]
			}
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(b.Used.Compare(a.Used), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return entries, nil
}

// sizeOf returns the size of all files in a folder, and the time of the newest.
func sizeOf(dir string, used time.Time) (int64, time.Time) {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // what others remove meanwhile has no size
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
			if t := info.ModTime().UTC(); t.After(used) {
				used = t
			}
		}
		return nil
	})
	return size, used
}

// origins says for every content digest where it is from, as far as pins and names tell.
func (c *Cache) origins() map[string][]string {
	type pin struct{ kind, pin string }
	names := map[pin][]string{}
	c.files.eachJSON(namesDir, func(_ string, text []byte) {
		var n Name
		if json.Unmarshal(text, &n) == nil && len(n.Of) == 4 {
			at := pin{n.Of[0], n.Pin}
			names[at] = append(names[at], strings.TrimSuffix(n.Of[1]+"@"+n.Of[3], "@"))
		}
	})
	from := map[string][]string{}
	c.files.eachJSON(pinsDir, func(_ string, text []byte) {
		var p pinned
		if json.Unmarshal(text, &p) != nil || len(p.Of) < 2 {
			return
		}
		of := names[pin{p.Of[0], p.Of[1]}]
		if len(of) == 0 {
			of = []string{p.Of[0] + " " + p.Of[1]}
		}
		from[p.Digest] = append(from[p.Digest], of...)
	})
	for digest := range from {
		slices.Sort(from[digest])
		from[digest] = slices.Compact(from[digest])
	}
	return from
}
