//go:build linux

package registration_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/config"
)

func TestNoTokenIsAskedForWhileTheDiskIsFull(t *testing.T) {
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	s, url, m := world(t, "")
	dir := filepath.Dir(m.Path)
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Log(err)
		enginetest.Skip(t, "the right to mount")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	token := s.NewRunner()
	text := "[[runners]]\nurl = \"" + url + "\"\ntoken = \"" + token + "\"\nexecutor = \"shell\"\n"
	if err := os.WriteFile(m.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	err := m.ResetToken(t.Context(), &config.Runner{URL: url, Token: token}, "")
	if err == nil || !strings.Contains(err.Error(), "no space left") || s.Runner(token) == nil {
		t.Errorf("%v, and GitLab has %v", err, s.Runner(token))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".room-*")); len(left) > 0 {
		t.Error("left:", left)
	}
}
