package machine

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/host/brought"
	"github.com/rungci/rung/executor/login"
)

const (
	// makeTime bounds how long an engine may take to make a container. That is not cancelled: the container could come later.
	makeTime = time.Minute
	// pullTime bounds a pull.
	pullTime = 30 * time.Minute
	// runSize bounds what brought has in memory, with its mode for users of every image.
	runOptions = "mode=1777,size=1m"
)

// container is a box of an engine, which knows it by the machine's name.
type container struct {
	*Config
	client *engine.Client
	said   said
}

func openContainer(c *Config, log io.Writer) (box, error) {
	client, err := engine.New(c.Box.Engine, c.Box.Certificates)
	if err != nil {
		return nil, err
	}
	return &container{Config: c, client: client, said: said{log: log}}, nil
}

// failed is an error of the engine.
func (c *container) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: the engine at %s: %w", doing, engine.WithoutUser(c.Box.Engine), err)
}

func (c *container) begin(ctx context.Context) error {
	image, err := c.image(ctx)
	if err != nil {
		return c.failed("its image "+c.Box.Image, err)
	}
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTime)
	defer cancel()
	if _, err := c.client.Containers.Create(making, c.Name, "", c.spec(image)); err != nil {
		return c.failed("making its container", err)
	}
	if err := errors.Join(context.Cause(ctx), c.bring(ctx)); err != nil {
		return c.failed("copying its SSH server to its container", err)
	}
	stream, err := c.client.Containers.Attach(ctx, c.Name, true) // closed with this process, and with it the container's input
	if err != nil {
		return c.failed("attaching to its container", err)
	}
	go func() { _ = engine.Demultiplex(&c.said, &c.said, stream) }()
	return c.failed("starting its container", c.client.Containers.Start(ctx, c.Name))
}

// image is the id of the machine's image, which is pulled if the engine does not have it.
func (c *container) image(ctx context.Context) (string, error) {
	found, err := c.client.Images.Inspect(ctx, c.Box.Image)
	if engine.Status(err) == http.StatusNotFound {
		ctx, cancel := context.WithTimeout(ctx, pullTime)
		defer cancel()
		if err := c.pull(ctx); err != nil {
			return "", err
		}
		found, err = c.client.Images.Inspect(ctx, c.Box.Image)
	}
	if err != nil {
		return "", err
	}
	return found.ID, nil
}

// pull pulls the image, with the credentials of the user of this program.
func (c *container) pull(ctx context.Context) error {
	var auth engine.Auth
	env := os.Environ()
	found, err := login.OfUser(ctx, env, engine.Home(env), c.Box.Image)
	if err != nil {
		fmt.Fprintln(c.said.log, "the credentials for its image:", err)
	}
	if found != nil {
		auth = found.Auth()
	}
	err = c.client.Images.Pull(ctx, c.Box.Image, "", auth, func(engine.Progress) {})
	if err != nil && found == nil {
		err = fmt.Errorf("%w (without credentials, as the Docker configuration of the user that runs rung has none for this registry)", err)
	}
	return err
}

func (c *container) spec(image string) *engine.Container {
	const billion = 1e9
	return &engine.Container{
		Image: image, Hostname: c.Name, Labels: c.Box.Labels, OpenStdin: true, StdinOnce: true, Healthcheck: &engine.Healthcheck{Test: []string{"NONE"}},
		Entrypoint: []string{brought.Program, broughtArg}, Cmd: brought.ServeSocket,
		HostConfig: engine.HostConfig{
			NetworkMode: c.Box.Network, Runtime: c.Box.Runtime,
			NanoCpus: int64(c.Box.CPUs * billion), Memory: c.Box.Memory, MemorySwap: c.Box.Memory,
			Machine: engine.Machine{Tmpfs: map[string]string{brought.RunFolder: runOptions}, LogConfig: &engine.LogConfig{Type: "none"}},
		},
	}
}

// bring copies this program into the container. The engine need not see this host's files.
func (c *container) bring(ctx context.Context) error {
	file, err := os.Open(c.Box.Program)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const forAll = 0o755
	archive, to := io.Pipe()
	defer archive.Close()
	go func() {
		w := tar.NewWriter(to)
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(brought.Program, "/"), Mode: forAll, Size: info.Size(), ModTime: info.ModTime()})
		if err == nil {
			_, err = io.Copy(w, file)
		}
		to.CloseWithError(errors.Join(err, w.Close()))
	}()
	return c.client.Containers.WriteFiles(ctx, c.Name, "/", archive)
}

func (c *container) run(ctx context.Context, part []string, in io.Reader, out io.Writer) error {
	id, stream, err := c.client.Containers.Exec(ctx, c.Name, engine.Exec{Cmd: append([]string{brought.Program, broughtArg}, part...)})
	if err != nil {
		return c.failed("running a command in its container", err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	go func() {
		_, _ = io.Copy(stream, in)
		_ = stream.CloseWrite()
	}()
	errs := said{log: io.Discard}
	if err := engine.Demultiplex(out, &errs, stream); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	end, err := c.client.Containers.InspectExec(ctx, id)
	if err == nil && (end.ExitCode == nil || *end.ExitCode != 0) {
		err = errors.New("it has not ended well" + errs.last())
	}
	return c.failed("running a command in its container", err)
}

func (c *container) wait(ctx context.Context) string {
	code, err := c.client.Containers.Wait(ctx, c.Name)
	if err != nil {
		return c.failed("waiting for its container", err).Error()
	}
	if found, err := c.client.Containers.Inspect(ctx, c.Name); err == nil && found.State.OOMKilled {
		return "its container has run out of memory"
	}
	return fmt.Sprintf("its container has ended with exit code %d%s", code, c.said.last())
}

func (c *container) pause(ctx context.Context) error {
	return c.paused(ctx, true, c.client.Containers.Pause)
}

func (c *container) resume(ctx context.Context) error {
	return c.paused(ctx, false, c.client.Containers.Unpause)
}

// paused pauses the container, or ends that, unless it is so already.
func (c *container) paused(ctx context.Context, yes bool, change func(context.Context, string) error) error {
	found, err := c.client.Containers.Inspect(ctx, c.Name)
	if err == nil && found.State.Paused != yes {
		err = change(ctx, c.Name)
	}
	return c.failed("pausing its container", err)
}

func (c *container) end(ctx context.Context) error {
	const look = 50 * time.Millisecond
	for {
		err := c.client.Containers.Remove(ctx, c.Name)
		switch engine.Status(err) {
		case http.StatusNotFound:
			return nil
		case http.StatusConflict: // somebody else is removing it
		default:
			if err != nil {
				return c.failed("removing its container", err)
			}
		}
		select {
		case <-ctx.Done():
			return c.failed("removing its container", context.Cause(ctx))
		case <-time.After(look):
		}
	}
}

// The labels of containers: the group's own, and the machine's name.
const (
	groupLabel = "rung.machines"
	nameLabel  = "rung.machine"
)

// Labels are those of a machine's container. group tells the machines of a group from all others of an engine.
func Labels(group, name string) map[string]string {
	return map[string]string{groupLabel: group, nameLabel: name}
}

// Sweep removes the containers of a group whose machines nobody knows.
func Sweep(ctx context.Context, of *Box, group string, known func(name string) bool) error {
	client, err := engine.New(of.Engine, of.Certificates)
	if err != nil {
		return err
	}
	defer client.Close()
	ids, err := client.Containers.List(ctx, groupLabel, group)
	for _, id := range ids {
		found, wrong := client.Containers.Inspect(ctx, id)
		if wrong == nil && !known(found.Config.Labels[nameLabel]) {
			wrong = client.Containers.Remove(ctx, id)
		}
		if engine.Status(wrong) != http.StatusNotFound {
			err = errors.Join(err, wrong)
		}
	}
	return err
}
