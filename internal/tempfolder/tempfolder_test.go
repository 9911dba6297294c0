//go:build unix

package tempfolder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestFoldersOfKilledProgramsAreRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	alive, err := Make("")
	if err != nil {
		t.Fatal(err)
	}
	left, err := Make("trace-")
	if err != nil {
		t.Fatal(err)
	}
	stubborn := filepath.Join(left, "home", "pkg")
	if err := os.MkdirAll(stubborn, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stubborn, "file"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(stubborn, 0o500); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(temp, "step-runner-123")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, _ := locks.LoadAndDelete(left) // as the end of a program does
	_ = lock.(*os.File).Close()

	const looks = 500 // 5 s: Make looks in the background, too, and whoever is first removes it
	for range looks {
		if removeLeft(temp); !exists(left) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if exists(left) {
		t.Error("the folder that was left is still there")
	}
	if !exists(alive) || !exists(foreign) {
		t.Error("a folder that is in use, or that another made, was removed")
	}
	Remove(alive)
	if exists(alive) {
		t.Error("Remove left the folder")
	}
}

func TestAFolderInPlaceOfOneThatDoesNotExist(t *testing.T) {
	own := t.TempDir()
	for temp, want := range map[string]string{filepath.Join(own, "none"): own, filepath.Dir(own): filepath.Dir(own)} {
		t.Setenv("TMPDIR", temp)
		if Fallback(own); os.TempDir() != want {
			t.Errorf("with %s it is %s, not %s", temp, os.TempDir(), want)
		}
	}
}

func TestARelativeFolderIsMadeAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for temp, want := range map[string]string{"a": filepath.Join(dir, "a"), "/b": "/b"} {
		t.Setenv("TMPDIR", temp)
		if Settle(); os.TempDir() != want {
			t.Errorf("%s is %s, not %s", temp, os.TempDir(), want)
		}
	}
}
