package scarcity_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/internal/scarcity"
)

func TestATrialLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := scarcity.TryWrite(dir, 1<<20); err != nil {
		t.Error(err)
	}
	if err := scarcity.TryWrite(filepath.Join(dir, "missing"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func TestATrialFindsAFullDisk(t *testing.T) {
	disk := hosttest.SmallDisk(t)
	err := os.WriteFile(filepath.Join(disk, "big"), make([]byte, 1<<20), 0o600)
	if !scarcity.DiskFull(err) {
		t.Fatal(err)
	}
	if err := scarcity.TryWrite(disk, 1); !scarcity.DiskFull(err) {
		t.Errorf("a full disk: %v", err)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}
