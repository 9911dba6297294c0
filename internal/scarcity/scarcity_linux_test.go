package scarcity_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/internal/scarcity"
)

func TestAFullDiskIsFound(t *testing.T) {
	disk, other := hosttest.SmallDisk(t), t.TempDir()
	if full := scarcity.FullDisk("", "/does/not/exist", other, disk); full != "" {
		t.Errorf("%s is full before anything is written", full)
	}
	err := os.WriteFile(filepath.Join(disk, "big"), make([]byte, 1<<20), 0o600)
	if !scarcity.DiskFull(err) || scarcity.DiskFull(errors.New("other")) || scarcity.DiskFull(nil) {
		t.Errorf("writing too much gives %v", err)
	}
	if full := scarcity.FullDisk(other, disk); full != disk {
		t.Errorf("%q is full, and should be %s", full, disk)
	}
}
