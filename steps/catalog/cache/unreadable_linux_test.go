package cache

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/programtest"
)

// asNobody does something to files as a user who is not root.
func asNobody(do func()) {
	const nobody = 65534
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
			if err := syscall.Setfsuid(nobody); err != nil {
				panic(err)
			}
		}
		do()
	}()
	<-ended
}

func TestWhatCannotBeReadIsNotInACache(t *testing.T) {
	dir, err := os.MkdirTemp("", "rung-cache-") // a user who is not root could not enter that of t
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	programtest.Write(t, dir, map[string]string{"deps/a": "a", "deps/b": "b", "deps/c": "c", "cache/": ""})
	for name, mode := range map[string]os.FileMode{"": 0o755, "cache": 0o777, "deps/a": 0, "deps/c": 0} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	call := &program.Call{WorkDir: dir, Stdout: &log, Stderr: &log}
	in := saveInputs{Key: "main", Paths: []string{"deps"}, Location: filepath.Join(dir, "cache"), Format: "tarzstd"}
	var size int64
	var strict error
	asNobody(func() {
		var to store
		if to, err = saveTo(call, in); err == nil {
			size, err = save(t.Context(), call, in, to, "main", pack.LevelDefault)
		}
		_, strict = pack.TarZstd(context.Background(), io.Discard, dir, []string{"deps/a"}, pack.Options{})
	})
	want := `warning: "deps/a" is left out: the job's user may not read it; the same holds for 1 more` + "\n"
	if err != nil || size == 0 || !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "Created cache: 2 entries, ") {
		t.Errorf("%d bytes, %v\n%s", size, err, log.String())
	}
	to := t.TempDir()
	r := restored(t, to, inputs{"location": in.Location})
	if diff := cmp.Diff(map[string]string{"deps/": "", "deps/b": "b"}, files(t, to)); diff != "" {
		t.Errorf("%s\n%s", diff, r.Log)
	}
	if strict == nil || !strings.Contains(strict.Error(), "let the job's user read it, or exclude it") {
		t.Errorf("artifacts: %v", strict)
	}
}
