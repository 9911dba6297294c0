package cache

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/source/tree"
)

func TestWhatSomebodyElseWroteIntoTheCacheIsNotBelieved(t *testing.T) {
	t.Parallel()
	dir, keyFile := t.TempDir(), filepath.Join(t.TempDir(), "rung", "cache.key")
	open := func() *Cache {
		c, err := Open(dir, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	mine := open()
	good := put(t, mine, "good", 0)
	evil := put(t, mine, "evil", 0)
	if err := errors.Join(mine.SetPinned(good, "git", "c0ffee", ""), mine.SetName("c0ffee", "git", "h", "h", "v1")); err != nil {
		t.Fatal(err)
	}
	again := open()
	if name, ok := again.Name("git", "h", "h", "v1"); again.Pinned("git", "c0ffee", "") != good || !ok || name.Pin != "c0ffee" {
		t.Error("another process of the user does not believe it")
	}
	rewrite := func(folder, old, with string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, folder, "*.json"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		text, _ := os.ReadFile(files[0])
		forged := strings.Replace(string(text), old, with, 1)
		if forged == string(text) {
			t.Fatal("nothing was changed")
		}
		if err := os.WriteFile(files[0], []byte(forged), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(pinsDir, good, evil)
	rewrite(namesDir, `"pin":"c0ffee"`, `"pin":"badbad"`)
	if got := open().Pinned("git", "c0ffee", ""); got != "" {
		t.Errorf("the forged pin is believed: %s", got)
	}
	if got, ok := open().Name("git", "h", "h", "v1"); ok {
		t.Errorf("the forged name is believed: %v", got)
	}
	checked, err := open().Verify(t.Context(), true)
	if err != nil || len(checked.Problems) != 2 || !checked.Problems[0].Removed {
		t.Errorf("verify finds %+v, %v", checked, err)
	}
	// One with a key of its own is as good as none.
	other := New(dir)
	other.files.key = []byte("another key")
	if err := other.SetPinned(evil, "git", "c0ffee", ""); err != nil {
		t.Fatal(err)
	}
	if got := open().Pinned("git", "c0ffee", ""); got != "" {
		t.Errorf("the pin of another is believed: %s", got)
	}
}

func TestTheKeyIsTheUsersAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs modes of files")
	}
	file := filepath.Join(t.TempDir(), "rung", "cache.key")
	first, err := readKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info, err)
	}
	if again, err := readKey(file); err != nil || string(again) != string(first) {
		t.Error("it is another the second time", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	var owner *OwnerError
	if _, err := readKey(file); !errors.As(err, &owner) {
		t.Errorf("others can read it: the error is %v", err)
	}
	if key, err := readKey(filepath.Join(file, "below", "a", "file")); err != nil || len(key) != keySize {
		t.Errorf("without a place for it: %d bytes, %v", len(key), err)
	}
}

func TestWhatIsAddedToAnUnpackedPackageIsFound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{tree.SignatureFile, ".git"} {
		c := New(t.TempDir())
		digest := put(t, c, "content", 0)
		dir, _, err := c.Tree(digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Tree(digest); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: the error is %v", name, err)
		}
		_ = RemoveTree(dir)
	}
}
