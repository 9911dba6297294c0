//go:build unix

package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

func TestAnOutputThatIsNoFileIsWrittenIntoAndStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	words := func(w io.Writer) error { _, err := io.WriteString(w, "words"); return err }
	write := func(name string) error { return (&Program{}).WriteTo(filepath.Join(dir, name), words) }
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	if err := os.WriteFile(filepath.Join(dir, "target"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("target", filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := write("link"); err != nil || read("target") != "words" {
		t.Errorf("through a link: %v, %q", err, read("target"))
	}
	if info, err := os.Lstat(filepath.Join(dir, "link")); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "target")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the file is %v, %v", info, err)
	}
	got := make(chan string)
	go func() { got <- read("pipe") }()
	if err := write("pipe"); err != nil {
		t.Fatalf("into a pipe: %v", err)
	}
	if text := <-got; text != "words" {
		t.Errorf("the pipe had %q", text)
	}
	if info, err := os.Lstat(filepath.Join(dir, "pipe")); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v, %v", info, err)
	}
	if code, _ := exit.Report(write("none/x")); code != exit.NotFound {
		t.Errorf("without a folder: exit code %d", code)
	}
}
