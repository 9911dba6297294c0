package forged

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// imposter is the program of the command of that name, for any Linux environment.
var imposter = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "rung-imposter-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "imposter")
	build := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/executor/executortest/forged/imposter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		return out, err
	}
	return os.ReadFile(file)
})

// Imposter returns a program for images: a static one, which takes the place of a step-runner. See its own documentation.
func Imposter(t testing.TB) []byte {
	t.Helper()
	program, err := imposter()
	if err != nil {
		t.Fatalf("building the imposter: %v\n%s", err, program)
	}
	return program
}
