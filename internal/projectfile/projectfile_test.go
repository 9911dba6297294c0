//go:build unix

package projectfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyTheFilesOfAProjectAreRead(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	root := filepath.Join(base, "project")
	host := filepath.Join(base, "secret")
	make := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	make(os.MkdirAll(filepath.Join(root, "sub"), 0o755))
	make(os.WriteFile(host, []byte("host"), 0o600))
	make(os.WriteFile(filepath.Join(root, "sub", "own"), []byte("own"), 0o600))
	make(os.Symlink("sub/own", filepath.Join(root, "inside")))
	make(os.Symlink(host, filepath.Join(root, "absolute")))
	make(os.Symlink("../secret", filepath.Join(root, "relative")))
	make(os.Symlink(base, filepath.Join(root, "folder")))
	make(os.Symlink("/dev/zero", filepath.Join(root, "zero")))
	make(syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	make(os.WriteFile(filepath.Join(root, "large"), []byte(strings.Repeat("x", 2000)), 0o600))

	for _, name := range []string{"sub/own", "inside"} {
		if got, err := Read(root, name, 1024); err != nil || string(got) != "own" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"absolute": "outside", "relative": "outside", "folder/secret": "outside", "zero": "outside", "../secret": "outside",
		"pipe": "not a regular file", "sub": "is a folder", "large": "larger than 1 KiB", "sub/own/below": "cannot be read",
	} {
		got, err := Read(root, name, 1024)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want an error that says %q", name, got, err, want)
		}
	}
	if _, err := Read(root, "missing", 1024); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error of a missing file is %v", err)
	}
	if got, err := ReadPath(root, filepath.Join(root, "sub", "own"), 1024); err != nil || string(got) != "own" {
		t.Errorf("by path: %q, %v", got, err)
	}
	if _, err := ReadPath(root, filepath.Join(root, "absolute"), 1024); err == nil {
		t.Error("by path a link leads out")
	}
}
