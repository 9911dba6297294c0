package discard_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/internal/discard"
)

func TestWhatIsRemoved(t *testing.T) {
	for name, litter := range map[string]func(t *testing.T, dir string) error{
		"nothing": func(_ *testing.T, dir string) error { return os.Remove(dir) },
		"files":   func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "file"), nil, 0o400) },
		"folders that nobody may enter": func(t *testing.T, dir string) error {
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "a"), 0o700) })
			return errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.Chmod(filepath.Join(dir, "a", "b"), 0), os.Chmod(filepath.Join(dir, "a"), 0))
		},
		"a link in its place": func(t *testing.T, dir string) error {
			return errors.Join(os.Remove(dir), os.Symlink(t.TempDir(), dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			if err := errors.Join(os.Mkdir(dir, 0o700), litter(t, dir)); err != nil {
				t.Fatal(err)
			}
			if err := discard.All(t.Context(), dir); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	outside, dir := t.TempDir(), filepath.Join(t.TempDir(), "dir")
	err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(outside, "file"), nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	if err := discard.All(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if os.Geteuid() == 0 {
		return // nothing is in root's way
	}
	dir := filepath.Join(t.TempDir(), "dir")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a"), 0o700), os.Chmod(dir, 0o500)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if err := discard.All(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
