package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestGeneratedCodeIsUpToDate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("scripts/generate.sh needs bash")
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip("there is no protoc (Debian's protobuf-compiler)")
	}
	fresh := t.TempDir()
	cmd := exec.Command(filepath.Join(root(), "scripts", "generate.sh"), fresh)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("scripts/generate.sh: %v\n%s", err, out)
	}
	count := 0
	for _, f := range files(t).generated {
		relative, err := filepath.Rel("api", f.path)
		if err != nil || f.path == relative {
			continue
		}
		count++
		want, err := os.ReadFile(filepath.Join(fresh, relative))
		if err != nil {
			t.Errorf("%s has no .proto file: remove it", f.path)
			continue
		}
		got, err := os.ReadFile(filepath.Join(root(), f.path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its .proto file gives: run make generate", f.path)
		}
	}
	if made, err := filepath.Glob(filepath.Join(fresh, "*", "*", "*", "*.pb.go")); err != nil || len(made) != count {
		t.Errorf("the .proto files give %d files, and there are %d: run make generate", len(made), count)
	}
}
