package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"testing"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// stocked is a level that records what it pulls and makes.
func stocked(t *testing.T) *container.Executor {
	t.Helper()
	enginetest.Busybox(t)
	dir := t.TempDir()
	o := options(dir)
	o.Uses = usage.New(dir)
	o.Volumes.Kept = []string{"/kept"}
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// have prepares a job, and returns what ends it.
func have(t *testing.T, e *container.Executor, j *executor.Job) (done func()) {
	t.Helper()
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// tagged puts one more image with a tag into a registry that has shell/busybox:1, whose layer it shares.
func tagged(t *testing.T, r *sourcetest.Registry, tag string) {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "is-" + tag, Linkname: t.Name(), Typeflag: tar.TypeSymlink}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	put := func(mediaType string, data []byte) ocispec.Descriptor {
		blob, err := r.PutBlob("shell/busybox", mediaType, data)
		if err != nil {
			t.Fatal(err)
		}
		return blob
	}
	base := busyboxLayer(t)
	files, more := put(layerType, base), put(layerType, layer.Bytes())
	config := put("application/vnd.docker.container.image.v1+json", fmt.Appendf(nil,
		`{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":[%q,%q]}}`, files.Digest, more.Digest))
	manifest := map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": config, "layers": []ocispec.Descriptor{files, more},
	}
	if _, err := r.PutManifest("shell/busybox", tag, "application/vnd.docker.distribution.manifest.v2+json", manifest); err != nil {
		t.Fatal(err)
	}
}

func TestStoredImages(t *testing.T) {
	for _, policy := range []string{container.IfNotPresent, container.Always} {
		t.Run(policy, func(t *testing.T) {
			e, c := stocked(t), enginetest.Client(t)
			r, _ := registry(t)
			for _, tag := range []string{"one", "two", "foreign"} {
				tagged(t, r, tag)
			}
			names := []string{"", r.Host() + "/shell/busybox:one", r.Host() + "/shell/busybox:two", r.Host() + "/shell/busybox:foreign"}
			t.Cleanup(func() {
				for _, name := range names[1:] {
					_, _ = c.ImageRemove(context.Background(), name, client.ImageRemoveOptions{Force: true})
				}
			})
			use := func(number int) func() { return have(t, e, withImage(names[number], policy)) }
			storertest.Run(t, storertest.Case{
				Storer: e, Kind: executor.StoredImage, Use: use,
				Foreign: func() (executor.Stored, func() bool) {
					id := pullAsAPerson(t, c, names[3])
					use(3)() // jobs have it, too
					return executor.Stored{Kind: executor.StoredImage, Place: c.DaemonHost(), ID: id, Name: names[3]}, func() bool {
						_, err := c.ImageInspect(t.Context(), names[3])
						return err == nil
					}
				},
			})
		})
	}
}

// pullAsAPerson pulls an image, and returns its ID.
func pullAsAPerson(t *testing.T, c *client.Client, name string) string {
	t.Helper()
	pulling, err := c.ImagePull(t.Context(), name, client.ImagePullOptions{})
	if err == nil {
		err = pulling.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return found.ID
}

func TestStoredVolumes(t *testing.T) {
	e, c := stocked(t), enginetest.Client(t)
	t.Cleanup(func() {
		for _, number := range []int{1, 2} {
			for _, v := range volumesOf(t, c, fmt.Sprintf("stored-%d", number)) {
				_, _ = c.VolumeRemove(context.Background(), v, client.VolumeRemoveOptions{})
			}
		}
	})
	storertest.Run(t, storertest.Case{
		Storer: e, Kind: executor.StoredVolume,
		Use: func(number int) func() {
			j := job("volumes")
			j.KeepVolumes = fmt.Sprintf("stored-%d", number)
			env, err := e.Prepare(t.Context(), j, nil)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, c, env.Layout().Name)
			return func() {
				if err := env.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		},
		Foreign: func() (executor.Stored, func() bool) {
			const name = "rung-volume-somebody-elses"
			if _, err := c.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: name, Labels: map[string]string{"rung.volume": "theirs"}}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = c.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{}) })
			return executor.Stored{Kind: executor.StoredVolume, Place: c.DaemonHost(), ID: name, Name: name}, func() bool {
				_, err := c.VolumeInspect(t.Context(), name, client.VolumeInspectOptions{})
				return err == nil
			}
		},
	})
}

// volumesOf names the volumes with Job.KeepVolumes.
func volumesOf(t *testing.T, c *client.Client, kept string) (names []string) {
	all, err := c.VolumeList(context.Background(), client.VolumeListOptions{Filters: client.Filters{}.Add("label", "rung.volume="+kept)})
	if err != nil {
		t.Error(err)
	}
	for _, v := range all.Items {
		names = append(names, v.Name)
	}
	return names
}

// fill writes a file into the volume of a job's container.
func fill(t *testing.T, c *client.Client, name string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	content := make([]byte, 64<<10)
	if err := w.WriteHeader(&tar.Header{Name: "kept/file", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CopyToContainer(t.Context(), name, client.CopyToContainerOptions{DestinationPath: "/", Content: &archive}); err != nil {
		t.Fatal(err)
	}
}

func TestAnImageThatAPersonNamesIsTheirs(t *testing.T) {
	e, c := stocked(t), enginetest.Client(t)
	_, name := registry(t)
	have(t, e, withImage(name))()
	stock, err := e.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 {
		t.Fatalf("%+v %v", stock, err)
	}
	const theirs = "rung-test-theirs:1"
	if _, err := c.ImageTag(t.Context(), client.ImageTagOptions{Source: name, Target: theirs}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.ImageRemove(context.Background(), theirs, client.ImageRemoveOptions{Force: true}) })
	if err := e.Discard(t.Context(), stock.Things[0]); err != nil { // it was listed before
		t.Error(err)
	}
	for _, one := range []string{name, theirs} {
		if _, err := c.ImageInspect(t.Context(), one); err != nil {
			t.Errorf("it has lost the name %s: %v", one, err)
		}
	}
	if stock, err := e.Stored(t.Context()); err != nil || len(stock.Things) > 0 {
		t.Errorf("it is listed: %+v %v", stock, err)
	}
}

func TestAnImageOfAContainerThatAPersonMadeStays(t *testing.T) {
	e, c := stocked(t), enginetest.Client(t)
	_, name := registry(t)
	have(t, e, withImage(name))()
	made, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: name, Config: &dockercontainer.Config{Cmd: []string{"sh"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true})
	})
	stock, err := e.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 || !stock.Things[0].InUse {
		t.Fatalf("%+v %v", stock, err)
	}
	if err := e.Discard(t.Context(), stock.Things[0]); err == nil {
		t.Error("it is removed")
	}
}

func TestTheRecordOfUsesOutlivesItsProcess(t *testing.T) {
	enginetest.Busybox(t)
	_, name := registry(t)
	dir := t.TempDir()
	open := func() *container.Executor {
		o := options(dir)
		o.Uses = usage.New(dir)
		e, err := o.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	have(t, open(), withImage(name))()
	next := open()
	stock, err := next.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 || stock.Things[0].Name != name {
		t.Fatalf("the next process finds %+v %v", stock, err)
	}
	if err := next.Discard(t.Context(), stock.Things[0]); err != nil {
		t.Error(err)
	}
	if _, err := enginetest.Client(t).ImageInspect(t.Context(), name); err == nil {
		t.Error("the image is still there")
	}
}
