package engine_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

// testLabel is on all that is made, with the name of the test's own things.
const testLabel = "rung.test.engine"

// real is a client of the engine, and a name for what a test makes there, which is removed with it.
func real(t *testing.T) (*engine.Client, string) {
	t.Helper()
	c, err := engine.New(enginetest.Host(t), "")
	if err != nil {
		t.Fatal(err)
	}
	name := "rung-engine-" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() {
		ctx := context.Background()
		containers, err := c.Containers.List(ctx, testLabel, name)
		for _, id := range containers {
			err = errors.Join(err, c.Containers.Remove(ctx, id))
		}
		networks, listErr := c.Networks.List(ctx, testLabel, name)
		for _, id := range networks {
			err = errors.Join(err, c.Networks.Remove(ctx, id))
		}
		volumes, volumesErr := c.Volumes.List(ctx, testLabel, name)
		for _, volume := range volumes {
			err = errors.Join(err, c.Volumes.Remove(ctx, volume))
		}
		if err := errors.Join(err, listErr, volumesErr, c.Close()); err != nil {
			t.Error(err)
		}
	})
	return c, name
}

// run makes and starts a container without a network.
func run(t *testing.T, c *engine.Client, name string, command ...string) string {
	t.Helper()
	id, err := c.Containers.Create(t.Context(), name, "", &engine.Container{
		Image: enginetest.Busybox(t), Cmd: command, Labels: map[string]string{testLabel: name}, HostConfig: engine.HostConfig{NetworkMode: "none", Init: new(true)},
	})
	if err == nil {
		err = c.Containers.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWhatTheEngineIsSaidToBeIsWhatAnotherClientSees(t *testing.T) {
	c, _ := real(t)
	want, err := enginetest.Client(t).ServerVersion(t.Context(), client.ServerVersionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Version(t.Context())
	if err := errors.Join(err, c.Ping(t.Context())); err != nil || got.Os != want.Os || got.Arch != want.Arch {
		t.Errorf("%+v, not %+v: %v", got, want, err)
	}
}

func TestImagesAreAsAnotherClientSeesThem(t *testing.T) {
	c, _ := real(t)
	want, err := enginetest.Client(t).ImageInspect(t.Context(), enginetest.Busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Images.Inspect(t.Context(), enginetest.Image)
	if err != nil || got.ID != want.ID || got.Os != want.Os || got.Architecture != want.Architecture || strings.Join(got.Config.Env, " ") != strings.Join(want.Config.Env, " ") {
		t.Errorf("%+v, not %+v: %v", got, want, err)
	}
	for _, name := range []string{"rung-test/nowhere:1", "a?b", "a#b", "a%2fb"} {
		if _, err := c.Images.Inspect(t.Context(), name); engine.Status(err) < http.StatusBadRequest { // engines differ
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Images.Inspect(t.Context(), "../../containers"); engine.Status(err) == 0 {
		t.Errorf("a name that leaves its folder: %v", err)
	}
}

func TestTheLifeOfAContainer(t *testing.T) {
	c, name := real(t)
	id, err := c.Containers.Create(t.Context(), name, "", &engine.Container{
		Image: enginetest.Busybox(t), Cmd: []string{"sh", "-c", "hostname; echo oops >&2; exit 3"}, Hostname: "somewhere",
		Labels: map[string]string{testLabel: name}, HostConfig: engine.HostConfig{NetworkMode: "none"}, Healthcheck: &engine.Healthcheck{Test: []string{"NONE"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Containers.List(t.Context(), testLabel, name); err != nil || len(list) != 1 || list[0] != id {
		t.Errorf("%q %v", list, err)
	}
	attached, err := c.Containers.Attach(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	if err := c.Containers.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := engine.Demultiplex(&out, &errs, attached); err != nil || out.String() != "somewhere\n" || errs.String() != "oops\n" {
		t.Errorf("it says %q and %q: %v", out.String(), errs.String(), err)
	}
	if code, err := c.Containers.Wait(t.Context(), id); err != nil || code != 3 {
		t.Errorf("it ends with %d: %v", code, err)
	}
	if found, err := c.Containers.Inspect(t.Context(), id); err != nil || found.State.Running || found.State.ExitCode != 3 {
		t.Errorf("%+v %v", found, err)
	}
	log, err := c.Containers.Log(t.Context(), id, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	out.Reset()
	if err := engine.Demultiplex(&out, io.Discard, log); err != nil || out.String() != "somewhere\n" {
		t.Errorf("its log: %q %v", out.String(), err)
	}
	if err := c.Containers.Kill(t.Context(), id); engine.Status(err) != http.StatusConflict {
		t.Errorf("killing one that has ended: %v", err)
	}
	if err := c.Containers.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
	if err := c.Containers.Start(t.Context(), id); engine.Status(err) != http.StatusNotFound || !strings.Contains(err.Error(), id) {
		t.Errorf("starting one that is not there: %v", err)
	}
}

func TestCommandsInAContainer(t *testing.T) {
	c, name := real(t)
	id := run(t, c, name, "sleep", "600")
	t.Run("have an input, two outputs, a folder, an environment and a code", func(t *testing.T) {
		exec, s, err := c.Containers.Exec(t.Context(), id, engine.Exec{
			Cmd: []string{"sh", "-c", "pwd; echo $WHO >&2; cat | wc -c; exit 5"}, Env: []string{"WHO=me"}, WorkingDir: "/tmp",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		const size = 3 << 20
		go func() {
			_, _ = s.Write(bytes.Repeat([]byte("x"), size))
			_ = s.CloseWrite()
		}()
		var out, errs bytes.Buffer
		if err := engine.Demultiplex(&out, &errs, s); err != nil || out.String() != "/tmp\n3145728\n" || errs.String() != "me\n" {
			t.Errorf("%q %q %v", out.String(), errs.String(), err)
		}
		if end, err := c.Containers.InspectExec(t.Context(), exec); err != nil || end.Running || end.ExitCode == nil || *end.ExitCode != 5 {
			t.Errorf("%+v %v", end, err)
		}
	})
	t.Run("have a terminal of a size", func(t *testing.T) {
		exec, s, err := c.Containers.Exec(t.Context(), id, engine.Exec{Cmd: []string{"sh", "-c", "read go; stty size"}, Tty: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := c.Containers.ResizeExec(t.Context(), exec, 33, 101); err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(s, "\n")
		out, readErr := io.ReadAll(s)
		if err := errors.Join(err, readErr); err != nil || !strings.Contains(string(out), "33 101") {
			t.Errorf("%q %v", out, err)
		}
	})
	if err := c.Containers.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Containers.Wait(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Containers.Exec(t.Context(), id, engine.Exec{Cmd: []string{"true"}}); engine.Status(err) != http.StatusConflict {
		t.Errorf("in a container that has ended: %v", err)
	}
}

func TestFilesOfAContainerThatDoesNotRun(t *testing.T) {
	c, name := real(t)
	if err := c.Volumes.Create(t.Context(), name, map[string]string{testLabel: name}, engine.VolumeDriver{}); err != nil {
		t.Fatal(err)
	}
	id, err := c.Containers.Create(t.Context(), name, "", &engine.Container{
		Image: enginetest.Busybox(t), Cmd: []string{"true"}, Labels: map[string]string{testLabel: name},
		HostConfig: engine.HostConfig{NetworkMode: "none", Mounts: []engine.Mount{{Type: "volume", Source: name, Target: "/data"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = errors.Join(w.WriteHeader(&tar.Header{Name: "a b&c", Size: 4, Mode: 0o640}), func() error { _, err := w.Write([]byte("text")); return err }(), w.Close())
	if err := errors.Join(err, c.Containers.WriteFiles(t.Context(), id, "/data", &archive)); err != nil {
		t.Fatal(err)
	}
	if err := c.Containers.StatFile(t.Context(), id, "/data/a b&c"); err != nil {
		t.Error(err)
	}
	in, err := c.Containers.ReadFiles(t.Context(), id, "/data/a b&c")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	files := tar.NewReader(in)
	header, err := files.Next()
	if err != nil || header.Name != "a b&c" {
		t.Fatalf("%+v %v", header, err)
	}
	if text, err := io.ReadAll(files); err != nil || string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
	_, err = c.Containers.ReadFiles(t.Context(), id, "/data/none")
	if statErr := c.Containers.StatFile(t.Context(), id, "/data/none"); engine.Status(err) != http.StatusNotFound || engine.Status(statErr) != http.StatusNotFound {
		t.Errorf("a file that is not there: %v, %v", err, statErr)
	}
	if err := c.Containers.WriteFiles(t.Context(), id, "/", strings.NewReader("no archive, but text that is long enough to be one"+strings.Repeat(" ", 512))); engine.Status(err) == 0 {
		t.Errorf("an archive that is none: %v", err)
	}
	if err := c.Volumes.Remove(t.Context(), name); engine.Status(err) != http.StatusConflict {
		t.Errorf("a volume in use: %v", err)
	}
}

func TestNetworks(t *testing.T) {
	c, name := real(t)
	network, err := c.Networks.Create(t.Context(), engine.Network{Name: name, Labels: map[string]string{testLabel: name}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.Containers.Create(t.Context(), name, "", &engine.Container{
		Image: enginetest.Busybox(t), Cmd: []string{"sleep", "600"}, Labels: map[string]string{testLabel: name},
		HostConfig:       engine.HostConfig{NetworkMode: network, Init: new(true)},
		NetworkingConfig: engine.NetworkingConfig{EndpointsConfig: map[string]engine.Endpoint{network: {Aliases: []string{"db"}}}},
	})
	if err == nil {
		err = c.Containers.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Containers.Inspect(t.Context(), id)
	if err != nil || !found.State.Running || !found.NetworkSettings.Networks[name].IPAddress.IsValid() {
		t.Errorf("%+v %v", found, err)
	}
	if err := c.Networks.Remove(t.Context(), network); err == nil {
		return // Podman takes it away
	} else if engine.Status(err) != http.StatusForbidden {
		t.Errorf("a network in use: %v", err)
	}
	if err := c.Networks.Leave(t.Context(), network, id); err != nil {
		t.Error(err)
	}
	if err := c.Networks.Remove(t.Context(), network); err != nil {
		t.Error(err)
	}
}
