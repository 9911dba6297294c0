//go:build unix

package wholefile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rungci/rung/internal/wholefile"
)

func output(path string) error {
	return wholefile.Output(path, 0o666, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err })
}

// mode is that of what is at a path, and not of what a link leads to.
func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestOutputGoesWhereAShellWouldWriteIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("plain"), nil, 0o666), os.WriteFile(at("old"), []byte("longer text"), 0o600), os.Chmod(at("old"), 0o754),
		os.Mkdir(at("folder"), 0o700), os.Symlink("old", at("link")), os.Symlink("../new", at("folder/dangling")), os.Symlink("folder", at("other")), os.Symlink("loop", at("loop")),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		to   string
		mode fs.FileMode
	}{
		"fresh":          {"fresh", mode(t, at("plain"))},
		"link":           {"old", 0o754},
		"other/dangling": {"new", mode(t, at("plain"))},
	} {
		before, _ := os.Readlink(at(name))
		if err := output(at(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, _ := os.ReadFile(at(want.to)); string(text) != "text" || mode(t, at(want.to)) != want.mode {
			t.Errorf("%s: %s has %q, and the mode %s", name, want.to, text, mode(t, at(want.to)))
		}
		if after, _ := os.Readlink(at(name)); after != before {
			t.Errorf("%s leads to %q, and led to %q", name, after, before)
		}
	}
	for _, name := range []string{"loop", "folder"} {
		if output(at(name)) == nil {
			t.Errorf("%s was written", name)
		}
	}
}

func TestOutputIntoAPipeIsReadThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // as its own writer, too: nothing waits
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := output(path); err != nil {
		t.Fatal(err)
	}
	if mode(t, path)&fs.ModeNamedPipe == 0 {
		t.Fatal("the pipe was replaced")
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAnEditedFileIsTheOneThatALinkLeadsTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"new", "changed"} {
		if err := wholefile.Edit(link, 0o600, 0o640, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "file")); string(got) != text || mode(t, link)&fs.ModeSymlink == 0 {
			t.Errorf("the file has %q, and the link is %s", got, mode(t, link))
		}
	}
}
