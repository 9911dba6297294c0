package cache

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/source/tree"
)

// put stores a package with one file and makes it so old.
func put(t testing.TB, c *Cache, content string, age time.Duration) string {
	t.Helper()
	digest, err := c.Put(func(w *tree.Writer) error {
		return w.AddFile("step.yml", false, int64(len(content)), strings.NewReader(content))
	})
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.packagePath(digest)
	if err != nil {
		t.Fatal(err)
	}
	makeOld(t, path, age)
	return digest
}

func makeOld(t testing.TB, path string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

// mirror makes the mirror of a repository, with a file of a size in it.
func mirror(t testing.TB, c *Cache, url string, size int, age time.Duration) string {
	t.Helper()
	dir, err := c.Mirror(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pack")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	makeOld(t, file, age)
	makeOld(t, dir, age)
	return dir
}

func names(entries []Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

const day = 24 * time.Hour

func TestListSaysWhatIsThereAndWhereItIsFrom(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	if entries, err := c.List(); err != nil || len(entries) != 0 {
		t.Errorf("an empty cache has %v, %v", entries, err)
	}
	named := put(t, c, "named", 2*day)
	pinned := put(t, c, "pinned", 3*day)
	lost := put(t, c, "lost", day)
	for _, err := range []error{
		c.SetPinned(named, "git", "c0ffee", ""), c.SetPinned(pinned, "git", "beef", ""),
		c.SetName("c0ffee", "git", "https://h.example/p", "https://mirror.example/p", "v1"),
		c.SetName("c0ffee", "git", "https://h.example/p", "https://mirror.example/p", "main"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := mirror(t, c, "https://h.example/p", 1000, 4*day)
	got, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	var brief []Entry
	for _, e := range got {
		if e.Size <= 0 || e.Used.IsZero() {
			t.Errorf("%s has no size or time", e.Name)
		}
		brief = append(brief, Entry{Kind: e.Kind, Name: e.Name, From: e.From})
	}
	want := []Entry{
		{Kind: Package, Name: lost},
		{Kind: Package, Name: named, From: []string{"https://h.example/p@main", "https://h.example/p@v1"}},
		{Kind: Package, Name: pinned, From: []string{"git beef"}},
		{Kind: Mirror, Name: filepath.Base(dir)},
	}
	if diff := cmp.Diff(want, brief, cmp.AllowUnexported(Entry{})); diff != "" {
		t.Error(diff)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		o    PruneOptions
		want []string // what is left, of old, middle, new and mirror
	}{
		{"no bounds", PruneOptions{}, []string{"new", "middle", "mirror", "old"}},
		{"by age", PruneOptions{MaxAge: 15 * day}, []string{"new", "middle"}},
		{"by size, what was used last stays", PruneOptions{MaxSize: 5000}, []string{"new", "middle"}},
		{"everything", PruneOptions{All: true}, nil},
		{"everything that was not used lately", PruneOptions{All: true, Spare: 5 * day}, []string{"new"}},
		{"a dry run", PruneOptions{All: true, DryRun: true}, []string{"new", "middle", "mirror", "old"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := New(t.TempDir())
			known := map[string]string{
				put(t, c, "old", 30*day): "old", put(t, c, "middle", 10*day): "middle", put(t, c, "new", day): "new",
				filepath.Base(mirror(t, c, "https://h.example/p", 4000, 20*day)): "mirror",
			}
			before, err := c.List()
			if err != nil {
				t.Fatal(err)
			}
			pruned, err := c.Prune(t.Context(), tc.o)
			if err != nil {
				t.Fatal(err)
			}
			after, err := c.List()
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			var size int64
			for _, e := range after {
				left = append(left, known[e.Name])
				size += e.Size
			}
			if diff := cmp.Diff(tc.want, left); diff != "" {
				t.Error(diff)
			}
			if !tc.o.DryRun && (len(pruned.Removed) != len(before)-len(after) || pruned.Left != size) {
				t.Errorf("it says that %d were removed and %d bytes are left; there were %d, %d are left with %d bytes", len(pruned.Removed), pruned.Left, len(before), len(after), size)
			}
			if tc.o.DryRun && len(pruned.Removed) != 4 {
				t.Errorf("it would remove %d, want 4", len(pruned.Removed))
			}
		})
	}
}

func TestPruneLeavesAMirrorThatIsInUse(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	const url = "https://h.example/p"
	dir := mirror(t, c, url, 10, day)
	history := mirror(t, c, url+" history", 10, day)
	unlock, err := c.Lock(t.Context(), "git", url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prune(t.Context(), PruneOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error("the mirror in use was removed")
	}
	if _, err := os.Stat(history); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the mirror that nobody uses is still there")
	}
	unlock()
	if _, err := c.Prune(t.Context(), PruneOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if entries, err := c.List(); err != nil || len(entries) != 0 {
		t.Errorf("left are %v, %v", names(entries), err)
	}
}

func TestPruneDoesNotDisturbWhoReadsAPackage(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	digest := put(t, c, "content", 30*day)
	f, err := c.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pruned, err := c.Prune(t.Context(), PruneOptions{MaxAge: day}); err != nil || len(pruned.Removed) != 0 {
		t.Errorf("what was opened just now is not old: %v, %v", pruned, err)
	}
	if _, err := c.Prune(t.Context(), PruneOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Verify(f, digest); err != nil {
		t.Error(err)
	}
}

func TestPruneSweepsWhatLostItsMeaning(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	digest := put(t, c, "content", 0)
	for _, err := range []error{
		c.SetPinned(digest, "git", "kept"), c.SetPinned("sha256:"+strings.Repeat("0", 64), "git", "gone"),
		c.SetName("x", "git", "name"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for file, age := range map[string]time.Duration{"packages/new-1": 2 * day, "packages/new-2": 0, "names/new-3": 2 * day, "downloads/broken": 2 * day, "downloads/running": 0, "pins/bad.json": 0} {
		path := filepath.Join(c.Dir(), file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		makeOld(t, path, age)
	}
	if _, err := c.Prune(t.Context(), PruneOptions{}); err != nil {
		t.Fatal(err)
	}
	if c.Pinned("git", "kept") != digest || c.Pinned("git", "gone") != "" {
		t.Error("the wrong pins were removed")
	}
	if _, ok := c.Name("git", "name"); !ok {
		t.Error("the name was removed")
	}
	var left []string
	_ = filepath.WalkDir(c.Dir(), func(path string, entry fs.DirEntry, _ error) error {
		if rel, _ := filepath.Rel(c.Dir(), path); !entry.IsDir() && !strings.HasSuffix(rel, ".tar") && !strings.HasPrefix(rel, "tidied") && len(entry.Name()) < 20 {
			left = append(left, filepath.ToSlash(rel))
		}
		return nil
	})
	slices.Sort(left)
	if diff := cmp.Diff([]string{"downloads/running", "packages/new-2"}, left); diff != "" {
		t.Error(diff)
	}
}

func TestTheCachePrunesItselfOnceADay(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	old := put(t, c, "old", DefaultMaxAge+day)
	put(t, c, "a", 0)
	if !c.has(old) {
		t.Fatal("it pruned itself on the first day")
	}
	makeOld(t, filepath.Join(c.Dir(), "tidied"), 2*tidyEvery)
	put(t, c, "b", 0)
	if c.has(old) {
		t.Error("it did not prune itself on the next day")
	}
	older := put(t, c, "older", DefaultMaxAge+day)
	put(t, c, "c", 0)
	if !c.has(older) {
		t.Error("it pruned itself twice on one day")
	}
}

func TestPruneStops(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	digest := put(t, c, "x", day)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Prune(ctx, PruneOptions{All: true}); !errors.Is(err, context.Canceled) || !c.has(digest) {
		t.Errorf("got %v", err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	c := New(t.TempDir())
	good, changed, cut := put(t, c, "good", 0), put(t, c, "changed", 0), put(t, c, "cut", 0)
	if checked, err := c.Verify(t.Context(), false); err != nil || checked.Packages != 3 || len(checked.Problems) != 0 {
		t.Fatalf("got %+v, %v", checked, err)
	}
	path := func(digest string) string {
		p, err := c.packagePath(digest)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	text, err := os.ReadFile(path(changed))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(path(changed), []byte(strings.Replace(string(text), "changed", "CHANGED", 1)), 0o600),
		os.Truncate(path(cut), 300),
		os.WriteFile(filepath.Join(c.Dir(), "packages", "stray.tar"), nil, 0o600),
		c.SetPinned(good, "git", "kept"), c.SetPinned("sha256:"+strings.Repeat("0", 64), "git", "gone"),
		c.SetName("", "git", "nothing"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, repair := range []bool{false, true} {
		checked, err := c.Verify(t.Context(), repair)
		if err != nil {
			t.Fatal(err)
		}
		if len(checked.Problems) != 5 {
			t.Errorf("%d problems, want 5: %+v", len(checked.Problems), checked.Problems)
		}
		for _, p := range checked.Problems {
			if p.Removed != repair {
				t.Errorf("%s: removed is %v", p.Path, p.Removed)
			}
		}
	}
	checked, err := c.Verify(t.Context(), false)
	if err != nil || checked.Packages != 1 || len(checked.Problems) != 0 {
		t.Errorf("after the repair: %+v, %v", checked, err)
	}
	f, err := c.Open(good)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Fatal(err)
	}
}
