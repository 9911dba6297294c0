package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/internal/scarcity"
)

// TestDiskScripts runs the stories of testdata/disk, which mount: $DISK is a folder on a full disk.
func TestDiskScripts(t *testing.T) {
	disk := hosttest.SmallDisk(t)
	if err := os.Mkdir(filepath.Join(disk, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 1<<20), 0o600); !scarcity.DiskFull(err) {
		t.Fatal(err)
	}
	runStories(t, testscript.Params{Dir: "testdata/disk", Setup: func(env *testscript.Env) error {
		env.Defer(func() { // where the script has failed
			_ = exec.Command("umount", "--quiet", "--lazy", filepath.Join(env.WorkDir, "busy", "config.toml")).Run()
		})
		return nil
	}}, map[string]string{"DISK": disk})
}
