//go:build unix

// Package attacks holds what hostile components, repositories, traces and caches try, and that all of it fails.
package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// program is the step-runner under attack.
var program string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "rung-attacks-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "step-runner")
	build := exec.Command("go", "build", "-o", program, "github.com/rungci/rung/cmd/step-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // it runs in containers
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building step-runner: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// victim is a folder in which step-runner runs, with folders of its own for temporary files and home, so that a test can look through
// all that a run leaves.
type victim struct {
	t   *testing.T
	dir string // work, home and tmp are in it
	env []string
}

func newVictim(t *testing.T, env ...string) *victim {
	t.Helper()
	v := &victim{t: t, dir: t.TempDir()}
	for _, name := range []string{"work", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(v.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	v.env = append([]string{
		"PATH=" + filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + filepath.Join(v.dir, "home"), "TMPDIR=" + filepath.Join(v.dir, "tmp"),
	}, env...)
	return v
}

// write puts a file into the work directory.
func (v *victim) write(name, text string) {
	v.t.Helper()
	path := filepath.Join(v.dir, "work", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// read returns a file of the work directory; "" when there is none.
func (v *victim) read(name string) string {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join(v.dir, "work", name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		v.t.Fatal(err)
	}
	return string(text)
}

// exists reports whether the work directory has a file.
func (v *victim) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(v.dir, "work", name))
	return err == nil
}

func (v *victim) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(v.t.Context(), program, args...)
	cmd.Dir, cmd.Env = filepath.Join(v.dir, "work"), v.env
	return cmd
}

// run runs step-runner and returns its output and exit code.
func (v *victim) run(args ...string) (output string, code int) {
	v.t.Helper()
	cmd := v.command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		v.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// mustRun runs step-runner, which must succeed, and returns its output.
func (v *victim) mustRun(args ...string) string {
	v.t.Helper()
	out, code := v.run(args...)
	if code != 0 {
		v.t.Fatalf("step-runner %v: exit code %d\n%s", args, code, out)
	}
	return out
}

// await waits until something holds.
func (v *victim) await(what string, holds func() bool) {
	v.t.Helper()
	for limit := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			v.t.Fatalf("waited in vain until %s", what)
		}
	}
}
