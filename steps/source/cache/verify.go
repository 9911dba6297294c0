package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/source/tree"
)

// Problem is something in the cache that is not as it was put there.
type Problem struct {
	Path string `json:"path"`
	What string `json:"what"`
	// Removed says that it was taken out; what it held is fetched again when it is needed.
	Removed bool `json:"removed"`
}

// Checked says what Verify looked at and found.
type Checked struct {
	Packages int       `json:"packages"`
	Size     int64     `json:"size"` // of the packages, in bytes
	Problems []Problem `json:"problems"`
}

// Verify reads every package, packed and unpacked, and compares its content with its digest, and looks at what pins and names
// say. With repair, what is wrong is removed, but for unpacked packages while any run goes on.
func (c *Cache) Verify(ctx context.Context, repair bool) (*Checked, error) {
	checked := &Checked{Problems: []Problem{}}
	found := func(path, format string, args ...any) {
		p := Problem{Path: path, What: fmt.Sprintf(format, args...)}
		p.Removed = repair && os.Remove(path) == nil
		checked.Problems = append(checked.Problems, p)
	}
	files, err := c.files.entries(packagesDir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := context.Cause(ctx); err != nil {
			return checked, err
		}
		path := filepath.Join(c.dir, packagesDir, file.Name())
		if strings.HasPrefix(file.Name(), tempPrefix) {
			continue // being made, or for Prune
		}
		size, err := c.verifyPackage(path, file.Name())
		var corrupt *tree.CorruptError
		var name *nameError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // another process removed it
		case errors.As(err, &corrupt), errors.As(err, &name):
			found(path, "%v", err)
		case err != nil:
			return checked, err
		}
		checked.Packages++
		checked.Size += size
	}
	if err := c.verifyTrees(ctx, repair, checked); err != nil {
		return checked, err
	}
	c.files.eachJSON(pinsDir, func(path string, text []byte) {
		var p pinned
		switch {
		case json.Unmarshal(text, &p) != nil:
			found(path, "it does not say what the pin holds")
		case !c.files.wrote(pinsDir, p.MAC, p.signed()):
			found(path, "it was not written with your key: an earlier version wrote it, or somebody else")
		case !c.has(p.Digest):
			found(path, "the package of %s does not exist", strings.TrimSpace(strings.Join(p.Of, " ")))
		}
	})
	c.files.eachJSON(namesDir, func(path string, text []byte) {
		var n Name
		if json.Unmarshal(text, &n) != nil || n.Pin == "" {
			found(path, "it does not say what the name points to")
		} else if !c.files.wrote(namesDir, n.MAC, n.signed()) {
			found(path, "it was not written with your key: an earlier version wrote it, or somebody else")
		}
	})
	return checked, nil
}

// verifyTrees looks at the unpacked packages.
func (c *Cache) verifyTrees(ctx context.Context, repair bool, checked *Checked) error {
	trees, err := c.files.entries(treesDir)
	if err != nil {
		return err
	}
	free, unlock := false, func() {}
	if repair {
		free, unlock = c.treesFree(ctx)
	}
	defer unlock()
	for _, entry := range trees {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			continue // being made, or for Prune
		}
		dir := filepath.Join(c.dir, treesDir, entry.Name())
		m, err := tree.ScanExact(dir) // which does not count as a use
		if err == nil && m.Digest("") == "sha256:"+entry.Name() || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		removed := free && RemoveTree(dir) == nil
		checked.Problems = append(checked.Problems, Problem{Path: dir, What: "the unpacked package is not what its digest says", Removed: removed})
	}
	return nil
}

// nameError says that a file is not a package.
type nameError struct{ name string }

func (e *nameError) Error() string { return e.name + " is not the name of a package" }

func (c *Cache) verifyPackage(path, name string) (size int64, err error) {
	sum, isTar := strings.CutSuffix(name, ".tar")
	digest := "sha256:" + sum
	if want, err := c.packagePath(digest); err != nil || !isTar || want != path {
		return 0, &nameError{name}
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	_, err = tree.Verify(f, digest)
	return size, err
}
