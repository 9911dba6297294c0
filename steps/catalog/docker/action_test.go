package docker

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/catalog/program"
)

// actionCall is the call of an action whose files and folders are in one of the test's.
func actionCall(t *testing.T, more ...string) (call *program.Call, said *strings.Builder, root string) {
	t.Helper()
	root = t.TempDir()
	for _, name := range []string{"work", "temp", "files", "event", "action"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(root, name) }
	said = &strings.Builder{}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + in("home"), "GITHUB_WORKSPACE=" + in("work"), "RUNNER_TEMP=" + in("temp"),
		"GITHUB_OUTPUT=" + in("files/output"), "GITHUB_EVENT_PATH=" + in("event/event.json"), "GITHUB_ACTION_PATH=" + in("action"),
		"GITHUB_REPOSITORY=group/project", "INPUT_WHO=the world",
	}
	return &program.Call{WorkDir: in("work"), Env: append(env, more...), Stdout: said, Stderr: said}, said, root
}

func TestTheCommandLineOfAnAction(t *testing.T) {
	call, _, root := actionCall(t, "SECRET=hush", "DOCKER_HOST=unix:///elsewhere", "DOCKER_PASSWORD=hush")
	o, err := parseAction([]string{"--image", "alpine:3", "--entrypoint", "/go", "--env", "A=b", "--env", "PATH=/its/own", "--", "-x", "two words", ""})
	if err != nil {
		t.Fatal(err)
	}
	args, err := o.arguments("docker", "name", call)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(root, name) }
	want := []string{
		"run", "--rm", "--name", "name", "--network", "host", "--workdir", "/github/workspace", "--init",
		"--volume", in("files") + ":/github/file_commands", "--volume", in("event") + ":/github/workflow",
		"--volume", in("temp/_github_home") + ":/github/home", "--volume", in("temp") + ":/github/runner_temp", "--volume", in("work") + ":/github/workspace",
		"--env", "HOME=/github/home", "--env", "GITHUB_WORKSPACE=/github/workspace", "--env", "RUNNER_TEMP=/github/runner_temp",
		"--env", "GITHUB_OUTPUT=/github/file_commands/output", "--env", "GITHUB_EVENT_PATH=/github/workflow/event.json",
		"--env", "GITHUB_ACTION_PATH", "--env", "GITHUB_REPOSITORY", "--env", "INPUT_WHO", "--env", "SECRET", "--env", "DOCKER_PASSWORD", "--env", "A=b", "--env", "PATH=/its/own",
		"--entrypoint=/go", "--", "alpine:3", "-x", "two words", "",
	}
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCommandLinesThatAreNoAction(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "an image, or a Dockerfile",
		"--image a --dockerfile b":     "an image, or a Dockerfile",
		"--image -v/:/host":            "is not the name of an image",
		"--image a --env B":            "is not NAME=VALUE",
		"--image a --privileged":       "not defined",
		"--dockerfile /none/such/file": "no such file",
	} {
		call, _, _ := actionCall(t)
		if err := Action(t.Context(), call, strings.Fields(text)); err == nil || !strings.Contains(err.Error(), want) && !errors.As(err, new(*program.UnavailableError)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestAnEngineThatDoesNotAnswerIsNotTheActionsFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("docker actions run on Linux")
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\n[ \"$1\" = --version ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; }\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	call, _, _ := actionCall(t, "PATH="+bin)
	err := Action(t.Context(), call, []string{"--image", "a"})
	if !errors.As(err, new(*program.UnavailableError)) || !strings.Contains(err.Error(), "the container engine of docker does not answer; start Docker or Podman: Cannot connect") {
		t.Errorf("got %v", err)
	}
}

func TestAnActionNeedsAnEngine(t *testing.T) {
	call, _, _ := actionCall(t, "PATH="+t.TempDir())
	if err := Action(t.Context(), call, []string{"--image", "a"}); err == nil || !strings.Contains(err.Error(), "a job that is in a container itself has none") {
		t.Errorf("got %v", err)
	}
}

func TestAnActionRunsInAContainer(t *testing.T) {
	host := enginetest.Host(t)
	image := enginetest.Busybox(t)
	const script = `echo "greeting=Hello, $INPUT_WHO" >>"$GITHUB_OUTPUT"; pwd; echo "$HOME"; cat here.txt; echo made >made.txt; exit ${1:-0}`
	t.Run("with its files, its variables and its arguments", func(t *testing.T) {
		call, said, root := actionCall(t, "DOCKER_HOST="+host)
		write(t, filepath.Join(root, "work/here.txt"), "from the workspace\n")
		write(t, filepath.Join(root, "files/output"), "")
		if err := Action(t.Context(), call, []string{"--image", image, "--entrypoint", "/bin/sh", "--", "-c", script}); err != nil {
			t.Fatal(err, said)
		}
		if got, want := said.String(), "/github/workspace\n/github/home\nfrom the workspace\n"; got != want {
			t.Errorf("it says %q, not %q", got, want)
		}
		for name, want := range map[string]string{"files/output": "greeting=Hello, the world\n", "work/made.txt": "made\n"} {
			if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
				t.Errorf("%s holds %q, %v", name, got, err)
			}
		}
	})
	t.Run("from its Dockerfile, which is built once", func(t *testing.T) {
		call, said, root := actionCall(t, "DOCKER_HOST="+host)
		dockerfile := filepath.Join(root, "action/Dockerfile")
		write(t, dockerfile, "FROM "+image+"\nCOPY run.sh /run.sh\nENTRYPOINT [\"/bin/sh\", \"/run.sh\"]\n")
		write(t, filepath.Join(root, "action/run.sh"), "echo built: $1; exit $2\n")
		for range 2 { // it says the same, whether it is there or not
			said.Reset()
			err := Action(t.Context(), call, []string{"--dockerfile", dockerfile, "--", "yes", "3"})
			if err == nil || !strings.Contains(err.Error(), "exit code 3") {
				t.Fatalf("it ends with %v\n%s", err, said)
			}
			if !strings.Contains(said.String(), "built: yes") || !strings.HasPrefix(said.String(), "the action's image is rung-action:") {
				t.Errorf("it says %q", said)
			}
		}
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
