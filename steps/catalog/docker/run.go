package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

// removeTime is how long the removal of a container may take that the step was stopped in.
const removeTime = 30 * time.Second

type runInputs struct {
	Image      string            `json:"image"`
	Command    []string          `json:"command"`
	Script     string            `json:"script"`
	Entrypoint []string          `json:"entrypoint"`
	Variables  map[string]string `json:"variables"`
	Volumes    []string          `json:"volumes"`
	WorkDir    string            `json:"work_dir"`
	User       string            `json:"user"`
	Pull       string            `json:"pull"`
	Platform   string            `json:"platform"`
	Network    string            `json:"network"`
	Engine     string            `json:"engine"`
}

// Run is builtin://docker/run.
func Run(ctx context.Context, call *program.Call) error {
	var in runInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	engine, err := findEngine(ctx, call, in.Engine, "install one, or run the job itself in a container with `image:`")
	if err != nil {
		return err
	}
	named := in.Image
	in.Image = lockedImage(call, named)
	name := containerName()
	args, err := in.arguments(engine, call.WorkDir, name)
	if err != nil {
		return err
	}
	if in.Pull == "always" {
		if err := call.Run(ctx, "", nil, pullArguments(engine, &in)...); err != nil {
			return fmt.Errorf("fetching the image %s: %w", in.Image, err)
		}
	}
	var more []string
	for _, variable := range slices.Sorted(maps.Keys(in.Variables)) {
		more = append(more, variable+"="+in.Variables[variable])
	}
	err = call.Run(ctx, "", more, append([]string{engine}, args...)...)
	if ctx.Err() != nil {
		remove(call, engine, name)
		return ctx.Err()
	}
	if i := inspect(ctx, call, engine, in.Image); i != nil {
		record(call, named, in.Image, i)
		if err := call.Output("image", value.OfString(i.name())); err != nil {
			return err
		}
	}
	var exit *program.ExitError
	if errors.As(err, &exit) && exit.Code >= 0 {
		// 125 is the engine's own; the engine has said why.
		if oerr := call.Output("exit_code", value.OfInt(int64(exit.Code))); oerr != nil {
			return oerr
		}
	}
	return err
}

// findEngine returns the program that runs containers: the one that is asked for, or the one that is there.
func findEngine(ctx context.Context, call *program.Call, want, hint string) (string, error) {
	candidates := []string{want}
	if want == "" {
		candidates = []string{"docker", "podman"}
	}
	for _, name := range candidates {
		_, err := call.Read(ctx, "", nil, name, "--version")
		switch {
		case err == nil:
			return name, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case !errors.Is(err, process.ErrNotFound):
			return "", fmt.Errorf("%s does not run: %w", name, err)
		}
	}
	return "", &program.UnavailableError{Err: fmt.Errorf("there is no %s in PATH; %s", strings.Join(candidates, " and no "), hint)}
}

// pullArguments are the command that fetches the image.
func pullArguments(engine string, in *runInputs) []string {
	args := []string{engine, "pull", "--quiet"}
	if in.Platform != "" {
		args = append(args, "--platform", in.Platform)
	}
	return append(args, in.Image)
}

// arguments are those of docker and podman alike. The values of variables are not among them: other users see arguments.
func (in *runInputs) arguments(engine, workDir, name string) ([]string, error) {
	if in.Image == "" || strings.HasPrefix(in.Image, "-") {
		return nil, fmt.Errorf("%q is not the name of an image", in.Image)
	}
	if in.Script != "" && len(in.Command) > 0 {
		return nil, errors.New("command and script both say what to run: keep one of them")
	}
	args := []string{"run", "--rm", "--name", name, "--volume", workDir + ":" + workDir, "--workdir", in.directory(workDir)}
	if engine == "docker" { // podman needs another program for it, which is often not there
		args = append(args, "--init")
	}
	if in.Pull == "never" {
		args = append(args, "--pull", "never")
	}
	for flag, text := range map[string]string{"--platform": in.Platform, "--network": in.Network} {
		if text != "" {
			args = append(args, flag+"="+text)
		}
	}
	switch {
	case in.User == "" && runtime.GOOS != "windows":
		args = append(args, "--user", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()))
		if engine == "podman" && os.Getuid() != 0 {
			args = append(args, "--userns=keep-id") // else a user without privileges is somebody else in the container
		}
	case in.User != "" && in.User != "image":
		args = append(args, "--user="+in.User)
	}
	for _, variable := range slices.Sorted(maps.Keys(in.Variables)) {
		if variable == "" || strings.ContainsAny(variable, "=\x00") {
			return nil, fmt.Errorf("%q is not the name of a variable", variable)
		}
		args = append(args, "--env", variable)
	}
	for _, volume := range in.Volumes {
		resolved, err := resolveVolume(workDir, volume)
		if err != nil {
			return nil, err
		}
		args = append(args, "--volume", resolved)
	}
	entrypoint, command := in.Entrypoint, in.Command
	if in.Script != "" {
		entrypoint, command = []string{"/bin/sh"}, []string{"-ec", in.Script}
	}
	if len(entrypoint) > 0 { // the flag takes a program only
		args = append(args, "--entrypoint="+entrypoint[0])
		command = append(slices.Clone(entrypoint[1:]), command...)
	}
	return append(append(args, "--", in.Image), command...), nil
}

func (in *runInputs) directory(workDir string) string {
	switch {
	case in.WorkDir == "":
		return workDir
	case filepath.IsAbs(in.WorkDir) || strings.HasPrefix(in.WorkDir, "/"):
		return in.WorkDir
	}
	return filepath.Join(workDir, in.WorkDir)
}

// resolveVolume makes the source of a volume absolute. One that is relative stays in the work directory, links followed; a name without
// a slash is that of a volume of the engine.
func resolveVolume(workDir, volume string) (string, error) {
	source, target, ok := strings.Cut(volume, ":")
	if !ok || source == "" || target == "" {
		return "", fmt.Errorf("the volume %q is not SOURCE:TARGET", volume)
	}
	if filepath.IsAbs(source) || !strings.HasPrefix(source, ".") && !strings.Contains(source, "/") {
		return volume, nil
	}
	root, err := filepath.EvalSymlinks(workDir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, source))
	if err != nil {
		return "", fmt.Errorf("the volume %q: %w", volume, err)
	}
	if inside, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(inside) {
		return "", fmt.Errorf("the volume %q leads out of the work directory", volume)
	}
	return path + ":" + target, nil
}

// remove removes the container of a step that was stopped; ending the program alone would leave it running.
func remove(call *program.Call, engine, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	quiet := *call
	var discard strings.Builder
	quiet.Stdout, quiet.Stderr = &discard, &discard
	_ = quiet.Run(ctx, "", nil, engine, "rm", "--force", name)
}

func containerName() string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // it never fails
	return "step-runner-" + hex.EncodeToString(random[:])
}
