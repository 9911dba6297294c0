package wholefile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/wholefile"
)

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := wholefile.WriteText(path, 0o644, []byte("one")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is full")
	err := wholefile.Write(path, 0o644, func(w io.Writer) error {
		if _, err := io.WriteString(w, "tw"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "one" {
		t.Errorf("the file holds %q", text)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
}

func TestErrorsNameTheFileThatWasMeant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, source, missing := filepath.Join(dir, "folder"), filepath.Join(dir, "source"), filepath.Join(dir, "none", "a")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(source, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, err := range map[string]error{
		missing: wholefile.WriteText(missing, 0o600, nil),
		folder:  wholefile.WriteText(folder, 0o600, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), path+":") || strings.Contains(err.Error(), ".new-") {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
	for _, to := range []string{missing, folder} {
		if err := wholefile.Place(source, to); err == nil || !strings.Contains(err.Error(), to+":") || strings.Contains(err.Error(), ".new-") {
			t.Errorf("%s: the error is %v", to, err)
		}
	}
	other := &os.PathError{Op: "read", Path: source, Err: errors.New("broken")}
	if err := wholefile.Write(filepath.Join(dir, "a"), 0o600, func(io.Writer) error { return other }); !errors.Is(err, other) {
		t.Errorf("the error of another file is %v", err)
	}
}

func TestASyncedFileReplacesAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.txt")
	for _, text := range []string{"one", "two"} {
		if err := wholefile.WriteSynced(path, 0o600, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != text {
			t.Errorf("the file holds %q, %v", got, err)
		}
	}
	if err := wholefile.WriteSynced(filepath.Join(path, "a"), 0o600, nil); err == nil {
		t.Error("a file is a folder")
	}
}

func TestAnEditedFileKeepsItsMode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs modes of files")
	}
	for before, want := range map[os.FileMode]os.FileMode{0: 0o600, 0o600: 0o600, 0o640: 0o640, 0o644: 0o600, 0o400: 0o400} {
		path := filepath.Join(t.TempDir(), "a.txt")
		if before != 0 {
			if err := os.WriteFile(path, nil, before); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := wholefile.Edit(path, 0o600, 0o640, []byte("text")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%o became %o, want %o; %v", before, info.Mode().Perm(), want, err)
		}
	}
}

func TestTheMode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs modes of files")
	}
	for _, mode := range []os.FileMode{0o600, 0o644, 0o755} {
		path := filepath.Join(t.TempDir(), "a")
		if err := wholefile.WriteText(path, mode, nil); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("want %v, got %v, %v", mode, info, err)
		}
	}
}

func TestAFolderThatIsNotThere(t *testing.T) {
	t.Parallel()
	if err := wholefile.WriteText(filepath.Join(t.TempDir(), "no", "a"), 0o600, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}
