package cache_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/tree"
)

// put stores a package of one script.
func put(t *testing.T, c *cache.Cache, text string) (digest string) {
	t.Helper()
	digest, err := c.Put(func(w *tree.Writer) error {
		return w.AddFile("bin/run", true, int64(len(text)), strings.NewReader(text))
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestUnpackedPackages(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	t.Cleanup(func() { _ = cache.RemoveTree(filepath.Join(root, "trees")) })
	c := cache.New(root)
	digest := put(t, c, "#!/bin/sh\n")
	dir, m, err := c.Tree(digest)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("hold the files of the package, for reading only", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(dir, "bin", "run"))
		if err != nil || !m.Has("bin/run") {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o222 != 0 {
			t.Errorf("the mode is %v", info.Mode())
		}
		if runtime.GOOS != "windows" && os.Getuid() != 0 {
			if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err == nil {
				t.Error("a file could be added")
			}
		}
	})
	t.Run("are the same folder for everybody", func(t *testing.T) {
		again, _, err := cache.New(root).Tree(digest)
		if err != nil || again != dir {
			t.Errorf("got %s (%v), want %s", again, err, dir)
		}
	})
	t.Run("stay while they are read, and go when nobody reads them", func(t *testing.T) {
		pruned, err := cache.New(root).Prune(t.Context(), cache.PruneOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range pruned.Removed {
			if e.Kind == cache.Unpacked {
				t.Errorf("removed %s", e.Name)
			}
		}
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-48 * time.Hour)
		for _, path := range []string{filepath.Join(dir, "bin", "run"), dir} {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cache.New(root).Prune(t.Context(), cache.PruneOptions{All: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("it is still there")
		}
	})
	t.Run("that somebody wrote into are not used", func(t *testing.T) {
		digest := put(t, c, "#!/bin/sh\necho\n")
		dir, _, err := c.Tree(digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "added"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Tree(digest); !errors.Is(err, cache.ErrChanged) {
			t.Errorf("the error is %v, want ErrChanged", err)
		}
	})
}

func TestVerifyLooksAtUnpackedPackages(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := cache.New(root)
	dir := filepath.Join(root, "trees", strings.TrimPrefix(put(t, c, "#!/bin/sh\n"), "sha256:"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, repair := range []bool{false, true} {
		checked, err := c.Verify(t.Context(), repair)
		if err != nil || len(checked.Problems) != 1 || checked.Problems[0].Path != dir || checked.Problems[0].Removed != repair {
			t.Errorf("repair %v: found %+v (%v)", repair, checked, err)
		}
	}
	if checked, err := c.Verify(t.Context(), false); err != nil || len(checked.Problems) != 0 {
		t.Errorf("after that: %+v (%v)", checked, err)
	}
}
