package docker_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/catalog/docker"
	"github.com/rungci/rung/steps/catalog/program"
)

var runDefaults = map[string]any{
	"image": "", "command": []string{}, "script": "", "entrypoint": []string{}, "variables": map[string]string{}, "volumes": []string{},
	"work_dir": "", "user": "", "pull": "if-not-present", "platform": "", "network": "", "engine": "docker",
}

// fakeEngine is a docker that records its arguments, for what can be known without an engine.
func fakeEngine(t *testing.T) (path, log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	text := "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\" >>" + log + "; done\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), log
}

func TestArguments(t *testing.T) {
	t.Parallel()
	env, log := fakeEngine(t)
	c, _ := newCall(t, runDefaults, map[string]any{
		"image": "alpine:3", "command": []string{"echo", "-n", "a b"}, "variables": map[string]string{"TOKEN": "s3cret-value"},
		"volumes": []string{"./cache:/cache:ro", "named:/data", "/etc:/host"}, "user": "image", "entrypoint": []string{"/bin/busybox", "env"},
	}, env)
	if err := os.Mkdir(filepath.Join(c.WorkDir, "cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := docker.Run(t.Context(), c); err != nil {
		t.Skipf("needs a shell: %v", err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{"--env\nTOKEN\n", "named:/data\n", "/etc:/host\n", "/cache:/cache:ro\n", "--entrypoint=/bin/busybox\n", "--\nalpine:3\nenv\necho\n-n\na b\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among the arguments:\n%s", want, got)
		}
	}
	if strings.Contains(got, "s3cret") || strings.Contains(got, "--user") {
		t.Errorf("the arguments are:\n%s", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	env, _ := fakeEngine(t)
	for name, in := range map[string]map[string]any{
		"an image that is an option":             {"image": "--privileged"},
		"no image":                               {},
		"a command and a script":                 {"image": "a", "command": []string{"x"}, "script": "y"},
		"a volume that leaves the work folder":   {"image": "a", "volumes": []string{"../..:/x"}},
		"a volume by a link that does":           {"image": "a", "volumes": []string{"./out:/x"}},
		"a volume without a target":              {"image": "a", "volumes": []string{"./cache"}},
		"a variable whose name is an assignment": {"image": "a", "variables": map[string]string{"A=B": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCall(t, runDefaults, in, env)
			if err := os.Symlink("/", filepath.Join(c.WorkDir, "out")); err != nil {
				t.Skipf("needs links: %v", err)
			}
			if err := docker.Run(t.Context(), c); err == nil {
				t.Error("it is accepted")
			}
		})
	}
	t.Run("an environment without an engine", func(t *testing.T) {
		t.Parallel()
		c, _ := newCall(t, runDefaults, map[string]any{"image": "a", "engine": ""}, "PATH="+t.TempDir())
		if err := docker.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no docker and no podman") {
			t.Errorf("the error is %v", err)
		}
	})
}

// engine returns the variables that lead to a real engine, with an image in it.
func engine(t *testing.T) (image string, env []string) {
	t.Helper()
	host := enginetest.Host(t)
	busybox := enginetest.Program(t, "busybox") // which the image is made of
	enginetest.Program(t, "docker")
	root := t.TempDir()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "busybox"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "cat", "id", "sleep", "ls"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	pack := exec.Command("tar", "c", "-C", root, ".")
	archive, err := pack.Output()
	if err != nil {
		t.Skipf("needs tar: %v", err)
	}
	image = "rung-test/" + strings.ToLower(t.Name()) + ":1"
	load := exec.Command("docker", "--host", host, "import", "-", image)
	load.Stdin = bytes.NewReader(archive)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("importing the image: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "--host", host, "rmi", "--force", image).Run() })
	return image, []string{"DOCKER_HOST=" + host}
}

func TestRun(t *testing.T) {
	image, env := engine(t)
	t.Run("the work directory is the container's, and files belong to the user", func(t *testing.T) {
		c, out := newCall(t, runDefaults, map[string]any{
			"image": image, "network": "none", "script": "echo \"$GREETING from $(pwd)\"; echo x >made", "variables": map[string]string{"GREETING": "hello"},
		}, env...)
		if err := docker.Run(t.Context(), c); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(out.String(), "hello from "+c.WorkDir) {
			t.Errorf("the log is %q", out)
		}
		if _, err := os.Stat(filepath.Join(c.WorkDir, "made")); err != nil {
			t.Error(err)
		}
		outputs, _ := os.ReadFile(c.OutputFile)
		if !strings.Contains(string(outputs), "sha256:") {
			t.Errorf("the outputs are %s", outputs)
		}
	})
	t.Run("the exit code is passed on", func(t *testing.T) {
		c, _ := newCall(t, runDefaults, map[string]any{"image": image, "network": "none", "command": []string{"sh", "-c", "exit 7"}}, env...)
		var exit *program.ExitError
		if err := docker.Run(t.Context(), c); !errors.As(err, &exit) || exit.Code != 7 {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a container is gone when the step is stopped", func(t *testing.T) {
		c, _ := newCall(t, runDefaults, map[string]any{"image": image, "network": "none", "script": "echo >started; sleep 600"}, env...)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- docker.Run(ctx, c) }()
		for { // until it runs
			if _, err := os.Stat(filepath.Join(c.WorkDir, "started")); err == nil {
				break
			}
			select {
			case err := <-done:
				t.Fatalf("it ended: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		list, err := exec.Command("docker", "--host", enginetest.Host(t), "ps", "--quiet", "--filter", "ancestor="+image).Output()
		if err != nil || len(bytes.TrimSpace(list)) > 0 {
			t.Errorf("containers are left: %s %v", list, err)
		}
	})
}
