package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/containers"
)

// actionOptions are what the definition of a Docker action says of its container.
type actionOptions struct{ containers.Action }

func parseAction(args []string) (*actionOptions, error) {
	parsed, err := containers.ParseAction(args)
	if err != nil {
		return nil, err
	}
	o := &actionOptions{*parsed}
	if len(o.Args) == 0 {
		o.Args = words(o.Words)
	}
	switch {
	case (o.Image == "") == (o.Dockerfile == ""):
		return nil, errors.New("a Docker action has an image, or a Dockerfile to build one from")
	case strings.HasPrefix(o.Image, "-"):
		return nil, fmt.Errorf("%q is not the name of an image", o.Image)
	}
	for _, pair := range o.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", pair)
		}
	}
	return o, nil
}

// Action runs the container of a Docker action of GitHub's, as GitHub's runner does: the workspace and the files of the toolkit are mounted
// below /github, and variables that hold their paths are changed to those. args are flags: --image NAME or --dockerfile FILE, --entrypoint
// PROGRAM, --env NAME=VALUE, and what the entrypoint is given: behind --, or with --args in one text.
//
// The container shares this machine's network, as the services of the run listen on its loopback address only.
func Action(ctx context.Context, call *program.Call, args []string) error {
	o, err := parseAction(args)
	if err != nil {
		return err
	}
	engine, err := findEngine(ctx, call, "", "install one; a job that is in a container itself has none, and cannot run such actions")
	if err == nil {
		err = answers(ctx, call, engine)
	}
	if err != nil {
		return fmt.Errorf("the action runs in a container: %w", err)
	}
	named := o.Image
	o.Image = lockedImage(call, named)
	if named == "" {
		if o.Image, err = build(ctx, call, engine, o.Dockerfile); err != nil {
			return err
		}
	}
	name := containerName()
	arguments, err := o.arguments(engine, name, call)
	if err != nil {
		return err
	}
	err = call.Run(ctx, "", nil, append([]string{engine}, arguments...)...)
	if ctx.Err() != nil {
		remove(call, engine, name)
	} else if i := inspect(ctx, call, engine, o.Image); i != nil {
		record(call, orDefault(named, o.Image), o.Image, i)
	}
	giveBack(call, engine, o.Image, call.WorkDir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// answers asks the program that starts containers whether its engine does.
func answers(ctx context.Context, call *program.Call, engine string) error {
	quiet, said := *call, new(strings.Builder)
	quiet.Stderr = said
	if _, err := quiet.Read(ctx, "", nil, engine, "version"); err != nil && ctx.Err() == nil {
		return &program.UnavailableError{Err: fmt.Errorf("the container engine of %s does not answer; start Docker or Podman: %s", engine, orDefault(strings.TrimSpace(said.String()), err.Error()))}
	}
	return ctx.Err()
}

// build builds the image of a Dockerfile, unless the engine has it: its name is made of what the action's folder holds.
func build(ctx context.Context, call *program.Call, engine, dockerfile string) (string, error) {
	info, err := os.Stat(dockerfile)
	if err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("the action's image is built from %s, and there is no such file", filepath.Base(dockerfile))
	}
	folder := call.Getenv("GITHUB_ACTION_PATH")
	if inside, err := filepath.Rel(folder, dockerfile); folder == "" || err != nil || !filepath.IsLocal(inside) {
		folder = filepath.Dir(dockerfile)
	}
	digest, err := folderDigest(folder)
	if err != nil {
		return "", fmt.Errorf("reading the action's folder: %w", err)
	}
	image := "rung-action:" + digest[:32]
	fmt.Fprintf(call.Stdout, "the action's image is %s\n", image) // the same words whether it is there or not, so that a replay's log is the same
	quiet, said := *call, new(strings.Builder)
	quiet.Stdout, quiet.Stderr = said, said
	if _, err := quiet.Read(ctx, "", nil, engine, "image", "inspect", "--format", "{{.Id}}", image); err == nil {
		return image, nil
	}
	legacy := []string{"DOCKER_BUILDKIT=" + orDefault(call.Getenv("DOCKER_BUILDKIT"), "0")} // BuildKit needs a plug-in of the program, which is often not there
	said.Reset()
	if err := quiet.Run(ctx, "", legacy, engine, "build", "--tag", image, "--file", dockerfile, folder); err != nil {
		_, _ = io.WriteString(call.Stderr, said.String())
		return "", fmt.Errorf("building the action's image: %w", err)
	}
	return image, nil
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// ownVariables are those of a process on this machine, and of the program that starts containers, that mean nothing in a container.
var ownVariables = []string{
	"PATH", "HOME", "LOGNAME", "USER", "SHELL", "TERM", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
	"CONTAINER_HOST", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_AUTH_CONFIG", "DOCKER_API_VERSION", "DOCKER_CERT_PATH",
	containers.LockedImageVariable, containers.ImageFileVariable,
	"DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_BUILDKIT", "DOCKER_DEFAULT_PLATFORM", "DOCKER_CONTENT_TRUST", "DOCKER_CUSTOM_HEADERS", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
}

// mount is a folder on this machine and where the action finds it.
type mount struct{ from, to string }

// arguments are those of docker run. No value of a variable is among them, but paths, and what is in the action's metadata: that is no
// secret, and the program that starts containers must not see it, because PATH and LD_PRELOAD would decide what runs on this machine.
func (o *actionOptions) arguments(engine, name string, call *program.Call) (args []string, err error) {
	if runtime.GOOS == "windows" {
		return nil, errors.New("docker actions run on Linux, as on GitHub")
	}
	mounts, err := mountsOf(call)
	if err != nil {
		return nil, err
	}
	args = []string{"run", "--rm", "--name", name, "--network", "host", "--workdir", workspace}
	if engine == "docker" {
		args = append(args, "--init")
	}
	for _, m := range mounts {
		args = append(args, "--volume", m.from+":"+m.to)
	}
	for _, socket := range []string{"/var/run/docker.sock"} {
		if _, err := os.Stat(socket); err == nil && call.Getenv("DOCKER_HOST") == "" {
			args = append(args, "--volume", socket+":"+socket)
		}
	}
	args = append(args, "--env", "HOME="+home)
	var names []string
	for _, pair := range call.Env {
		variable, text, ok := strings.Cut(pair, "=")
		if !ok || slices.Contains(ownVariables, variable) {
			continue
		}
		if inside := translated(mounts, text); inside != text {
			args = append(args, "--env", variable+"="+inside)
			continue
		}
		if !slices.Contains(names, variable) {
			names = append(names, variable)
		}
	}
	for _, variable := range names {
		args = append(args, "--env", variable)
	}
	for _, pair := range o.Env {
		variable, text, _ := strings.Cut(pair, "=")
		args = append(args, "--env", variable+"="+translated(mounts, text))
	}
	if o.Entrypoint != "" {
		args = append(args, "--entrypoint="+o.Entrypoint)
	}
	return append(append(args, "--", o.Image), o.Args...), nil
}

// Where an action finds things. Source: GitHub's documentation of Dockerfile support for actions.
const (
	workspace = "/github/workspace"
	home      = "/github/home"
)

// mountsOf are the folders that the action sees: the most special first, as paths are translated by the first that fits.
func mountsOf(call *program.Call) ([]mount, error) {
	temp := call.Getenv("RUNNER_TEMP")
	if temp == "" {
		return nil, errors.New("a Docker action speaks GitHub's toolkit, and RUNNER_TEMP is not set")
	}
	houses := filepath.Join(temp, "_github_home")
	if err := os.MkdirAll(houses, 0o777); err != nil {
		return nil, err
	}
	var out []mount
	if file := call.Getenv("GITHUB_OUTPUT"); file != "" {
		out = append(out, mount{filepath.Dir(file), "/github/file_commands"})
	}
	if file := call.Getenv("GITHUB_EVENT_PATH"); file != "" {
		out = append(out, mount{filepath.Dir(file), "/github/workflow"})
	}
	if folder := call.Getenv("RUNNER_TOOL_CACHE"); folder != "" {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			out = append(out, mount{folder, "/github/tool_cache"})
		}
	}
	out = append(out, mount{houses, home}, mount{temp, "/github/runner_temp"}, mount{call.WorkDir, workspace})
	return slices.DeleteFunc(out, func(m mount) bool { return m.to == "/github/workflow" && m.from == temp }), nil
}

// translated returns a path as the action sees it.
func translated(mounts []mount, text string) string {
	for _, m := range mounts {
		if text == m.from {
			return m.to
		}
		if rest, ok := strings.CutPrefix(text, m.from+"/"); ok {
			return path.Join(m.to, rest)
		}
	}
	return text
}
