//go:build unix

package wholefile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rungci/rung/internal/wholefile"
)

func TestAnEditedFileKeepsItsOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const user, group = 12, 34
	if err := os.Chown(path, user, group); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Edit(path, 0o600, 0o640, []byte("text")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != user || stat.Gid != group {
		t.Errorf("it belongs to %d:%d", stat.Uid, stat.Gid)
	}
}
