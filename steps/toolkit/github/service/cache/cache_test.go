package cache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/toolkit/github/service/cache"
)

// add saves a cache of so many bytes, and says when it was last used.
func add(t *testing.T, f cache.Folder, key string, size int, used time.Time) cache.Entry {
	t.Helper()
	file := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(file, []byte(strings.Repeat("x", size)), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := f.Add(key, "v", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(f.Path(e), used, used); err != nil {
		t.Fatal(err)
	}
	return e
}

// keys are those of a folder, the newest first.
func keys(t *testing.T, f cache.Folder) string {
	t.Helper()
	all, err := f.List()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, e.Key)
	}
	return strings.Join(out, " ")
}

func TestWhatWasNotUsedForLongestGoesFirst(t *testing.T) {
	t.Parallel()
	f := cache.Folder{Dir: filepath.Join(t.TempDir(), "new"), Max: 25}
	hour := func(n int) time.Time { return time.Now().Add(time.Duration(n) * time.Hour) }
	add(t, f, "a", 10, hour(-3))
	add(t, f, "b", 10, hour(-2))
	if _, ok, err := f.Find([]string{"a"}, "v"); !ok || err != nil { // now b is the one
		t.Fatal("a is not there", err)
	}
	add(t, f, "c", 10, hour(-1))
	if got := keys(t, f); got != "c a" {
		t.Errorf("left are %q", got)
	}
	t.Run("one that is larger than all room stays alone", func(t *testing.T) {
		add(t, f, "huge", 30, hour(0))
		if got := keys(t, f); got != "huge" {
			t.Errorf("left are %q", got)
		}
		if files, err := os.ReadDir(f.Dir); len(files) != 2 || err != nil {
			t.Errorf("the folder holds %v, %v", files, err)
		}
	})
}

func TestWhatIsNoCacheIsNotFound(t *testing.T) {
	t.Parallel()
	f := cache.Folder{Dir: t.TempDir()}
	e := add(t, f, "key", 3, time.Now())
	damage := map[string]func() error{
		"a description that is not JSON": func() error { return os.WriteFile(filepath.Join(f.Dir, e.Name()+".json"), []byte("{"), 0o600) },
		"a description of another cache": func() error {
			return os.WriteFile(filepath.Join(f.Dir, e.Name()+".json"), []byte(`{"key":"other","version":"v","size":3}`), 0o600)
		},
		"a content of another size": func() error { return os.WriteFile(f.Path(e), []byte("longer"), 0o600) },
		"no content":                func() error { return os.Remove(f.Path(e)) },
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			if err := do(); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := f.Find([]string{"key"}, "v"); ok || err != nil {
				t.Errorf("it is found, %v", err)
			}
			for _, path := range []string{f.Path(e), filepath.Join(f.Dir, e.Name()+".json")} {
				os.Remove(path)
			}
			add(t, f, "key", 3, time.Now()) // and can be saved again
		})
	}
	for _, name := range []string{"", "..", "../x", strings.Repeat("0", 64)} {
		if _, ok := f.ByName(name); ok {
			t.Errorf("%q is a cache", name)
		}
	}
}

func TestLeftoversGo(t *testing.T) {
	t.Parallel()
	f := cache.Folder{Dir: t.TempDir()}
	old, fresh := filepath.Join(f.Dir, "old.cache"), filepath.Join(f.Dir, ".new-1.tmp")
	for _, path := range []string{old, fresh} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	add(t, f, "key", 1, time.Now())
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed process left is still there: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("what another process writes is gone: %v", err)
	}
}

func TestACacheIsSavedOnce(t *testing.T) {
	t.Parallel()
	f := cache.Folder{Dir: t.TempDir()}
	add(t, f, "key", 1, time.Now())
	if _, err := f.Add("key", "v", "none"); !errors.Is(err, cache.ErrExists) {
		t.Errorf("the error is %v", err)
	}
	for _, key := range []string{"", "a,b", "a\tb", strings.Repeat("k", cache.MaxKey+1)} {
		if _, err := f.Add(key, "v", "none"); !errors.Is(err, cache.ErrKey) {
			t.Errorf("%q: the error is %v", key, err)
		}
	}
	for i := range 3 { // in order of their time, however fast
		add(t, f, fmt.Sprintf("key-%d", i), 1, time.Now())
	}
	if e, _, _ := f.Find([]string{"key-"}, "v"); e.Key != "key-2" {
		t.Errorf("the newest is %q", e.Key)
	}
}

func TestOfAJobsFolderOnlyNewCachesAreTaken(t *testing.T) {
	host, job := cache.Folder{Dir: t.TempDir()}, cache.Folder{Dir: t.TempDir()}
	add := func(f cache.Folder, key, text string) cache.Entry {
		file := filepath.Join(t.TempDir(), "content")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := f.Add(key, "v", file)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	old := add(host, "old", "of the main branch")
	add(job, "old", "poison")
	fresh := add(job, "new", "mine")
	lies := add(job, "lies", "a text")
	if err := os.WriteFile(job.Path(lies), []byte("another text"), 0o644); err != nil {
		t.Fatal(err)
	}
	moved := add(job, "moved", "mine")
	if err := os.Rename(filepath.Join(job.Dir, moved.Name()+".json"), filepath.Join(job.Dir, cache.Entry{Key: "else", Version: "v"}.Name()+".json")); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	linked := add(job, "linked", "secret")
	if err := errors.Join(os.WriteFile(outside, []byte("SECRET"), 0o600), os.Remove(job.Path(linked)), os.Symlink(outside, job.Path(linked))); err != nil {
		t.Skipf("needs symbolic links: %v", err)
	}
	if err := host.Take(job); err != nil {
		t.Fatal(err)
	}
	all, err := host.List()
	if err != nil || len(all) != 2 || all[0].Key != "new" || all[1] != old {
		t.Fatalf("there are %+v, %v", all, err)
	}
	for e, want := range map[cache.Entry]string{old: "of the main branch", fresh: "mine"} {
		if got, err := os.ReadFile(host.Path(e)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", e.Key, got, err)
		}
	}
}
