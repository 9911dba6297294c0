//go:build unix

package worktree_test

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/rungci/rung/internal/worktree"
)

func TestWhatIsNeitherFileNorLink(t *testing.T) {
	for _, inRepository := range []bool{false, true} {
		r := &repo{t, t.TempDir()}
		want := []string{"folder/pipe"}
		if inRepository {
			r = newRepo(t)
			r.write("folder/pipe", "was a file once")
			r.commit("one")
			if err := os.Remove(r.path("folder/pipe")); err != nil {
				t.Fatal(err)
			}
		}
		r.write("a", "a")
		r.write("folder/b", "b")
		if err := syscall.Mkfifo(r.path("folder/pipe"), 0o600); err != nil {
			t.Skipf("needs named pipes: %v", err)
		}
		copied, s := copyOf(t, r)
		if !slices.Equal(s.Skipped, want) {
			t.Errorf("skipped %q, want %q", s.Skipped, want)
		}
		if files := namesOf(filesOf(t, copied.dir)); !slices.Equal(files, []string{"a", "folder/", "folder/b"}) {
			t.Errorf("files %q", files)
		}
	}
}

// TestNobodyWaitsForAPipeInARepository has one in place of files that git reads.
func TestNobodyWaitsForAPipeInARepository(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HEAD", "config", "shallow", "MERGE_MSG", "index", "commondir", "refs/heads/x", "info/exclude", "objects/info/alternates"} {
		r := newRepo(t)
		r.write("a", "a")
		r.commit("one")
		if err := errors.Join(os.RemoveAll(r.path(".git/"+name)), syscall.Mkfifo(r.path(".git/"+name), 0o600)); err != nil {
			t.Skipf("needs named pipes: %v", err)
		}
		refused(t, r, "no text", "is not a regular file")
		if err := worktree.Check(r.dir); err == nil {
			t.Errorf("%s: git would be asked", name)
		}
	}
}
