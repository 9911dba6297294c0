package scarcity

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheCounterIsLookedForOnce(t *testing.T) {
	defer known.Store(known.Load())
	file := filepath.Join(t.TempDir(), "memory.events")
	if err := os.WriteFile(file, []byte("oom 2\noom_kill 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known.Store(&file)
	if n := kills(); n != 3 {
		t.Errorf("%d kills are counted, not 3", n)
	}
	if err := os.Remove(file); err != nil { // the process was moved to another group
		t.Fatal(err)
	}
	want, _ := find()
	if n := kills(); n != want {
		t.Errorf("%d kills are counted, not %d", n, want)
	}
	if now := known.Load(); now != nil && *now == file {
		t.Error("a file that is gone is still asked first")
	}
}
