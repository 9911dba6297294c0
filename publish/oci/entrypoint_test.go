package oci

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

func TestAnImageWithAnEntrypointIsOneForEngines(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	o := Options{
		Dir: write(t, "LICENSE", "mine"), Entrypoint: "/bin/tool",
		Platforms: platforms(t, "linux/amd64="+filepath.Join(write(t, "tool*", "z"), "tool")+"=bin/tool"),
	}
	first, out := build(t, o, "out")
	if second, _ := build(t, o, "out"); second.Digest != first.Digest {
		t.Errorf("the second build is %s, the first %s", second.Digest, first.Digest)
	}
	root, err := ocilayout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatal(top, err)
	}
	index, err := root.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || strings.Join(config.Config.Entrypoint, " ") != "/bin/tool" || config.Architecture != "amd64" {
		t.Errorf("the configuration is %+v, %v", config, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range manifest.Layers {
		if !l.MediaType.IsLayer() {
			t.Errorf("%s is not a layer that engines read", l.MediaType)
		}
	}
}

func TestAnEntrypointThatCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	dir := write(t, "tool*", "z", "notes", "n")
	for entrypoint, want := range map[string]string{
		"/missing": "not in the image", "tool": "not an absolute path", "/notes": "not executable",
	} {
		_, err := Build(t.Context(), Options{Dir: dir, Entrypoint: entrypoint}, filepath.Join(t.TempDir(), "out"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to contain %q", entrypoint, err, want)
		}
	}
}

func TestAnEnginePullsAndRunsAnImageWithAnEntrypoint(t *testing.T) {
	t.Parallel()
	host := enginetest.Host(t)
	docker, busybox := enginetest.Program(t, "docker"), enginetest.Program(t, "busybox")
	_, out := build(t, Options{
		Dir: t.TempDir(), Entrypoint: "/busybox", Platforms: platforms(t, "linux/amd64="+busybox+"=busybox", "linux/arm64="+busybox+"=busybox"),
	}, "out.tar")
	pushed, err := Push(t.Context(), out, target(newRegistry(t), "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	name := pushed.Registry + "/" + pushed.Repository + ":1.0.0"
	t.Cleanup(func() { _ = exec.Command(docker, "--host", host, "rmi", "-f", name).Run() })
	var stderr bytes.Buffer
	cmd := exec.Command(docker, "--host", host, "run", "--rm", "--network", "none", name, "echo", "from the image")
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), "DOCKER_CONFIG="+t.TempDir())
	said, err := cmd.Output()
	if err != nil || string(said) != "from the image\n" {
		t.Errorf("got %q, %v\n%s", said, err, stderr.String())
	}
}
