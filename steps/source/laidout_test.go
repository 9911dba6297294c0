package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/steps/source"
)

// TestPackagesLieInRealFolders would fail with symbolic links into the cache: a program that compares the path of its file with the one that
// it was started by, as ES modules do, finds two.
func TestPackagesLieInRealFolders(t *testing.T) {
	t.Parallel()
	s := newServer()
	cacheDir := t.TempDir()
	r := s.resolver(t, cacheDir)
	dir := load(t, r, git("v1", "hello"), r.WorkDir).Dir
	folder, err := filepath.EvalSymlinks(r.Folder)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(r.Folder, dir)
	if err != nil {
		t.Fatal(err)
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != filepath.Join(folder, rel) {
		t.Errorf("the component is in %s (%v), want %s", real, err, dir)
	}
	t.Run("whose files cannot be written to", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(dir, "step.yml"))
		if err != nil || info.Mode().Perm()&0o222 != 0 {
			t.Errorf("got %v (%v)", info, err)
		}
	})
}

// TestAPackageByTwoReferences has folders whose names do not depend on which reference came first: steps of a parallel group load in any order.
func TestAPackageByTwoReferences(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.names["v1.0"] = "pin1"
	cacheDir := t.TempDir()
	folders := func(refs ...string) map[string]string {
		r, out := s.resolver(t, cacheDir), map[string]string{}
		for _, rev := range refs {
			dir, err := filepath.Rel(r.Folder, load(t, r, git(rev, "hello"), r.WorkDir).Dir)
			if err != nil {
				t.Fatal(err)
			}
			out[rev] = dir
		}
		return out
	}
	one, other := folders("v1", "v1.0"), folders("v1.0", "v1")
	if one["v1"] == one["v1.0"] || one["v1"] != other["v1"] || one["v1.0"] != other["v1.0"] {
		t.Errorf("the folders are %v in one order, and %v in the other", one, other)
	}
}

// TestAPackageOfTheWorkDirectory has the same folder wherever the work directory is.
func TestAPackageOfTheWorkDirectory(t *testing.T) {
	t.Parallel()
	s := newServer()
	var folders []string
	for range 2 {
		r := s.resolver(t, t.TempDir(), func(r *source.Resolver) { r.WorkDir = t.TempDir() })
		ref := git("v1", "hello")
		ref.URL = "file://" + filepath.ToSlash(r.WorkDir) + "/repositories/p"
		rel, err := filepath.Rel(r.Folder, load(t, r, ref, r.WorkDir).Dir)
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, rel)
	}
	if folders[0] != folders[1] {
		t.Errorf("the folders are %v", folders)
	}
}
