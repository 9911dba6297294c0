//go:build unix

package textbusy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rungci/rung/internal/textbusy"
)

func TestAProgramThatIsStillOpenForWritingIsStartedOnceItIsClosed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { open.Close() })
	if err := textbusy.Retry(func() error { return exec.Command(file).Run() }); err != nil {
		t.Error(err)
	}
}
