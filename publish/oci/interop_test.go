package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"

	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/opencontainers/go-digest"
)

// TestOthersReadIt reads what was built as the existing step-runner does: with the library that it uses.
func TestOthersReadIt(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	_, out := build(t, Options{Dir: write(t, "func.yml", "x", "a/b", "y"), Platforms: platforms(t, "linux/amd64="+write(t, "tool*", "z"))}, "out")
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
	if err != nil || entries.Manifests[0].Platform.String() != "linux/amd64" {
		t.Fatal(entries, err)
	}
	image, err := index.Image(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatal(layers, err)
	}
	names := 0
	for _, l := range layers {
		plain, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(plain)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := l.DiffID(); err != nil || digest.FromBytes(data).String() != want.String() {
			t.Error("what the configuration says of a layer is wrong", want, err)
		}
		for in := tar.NewReader(bytes.NewReader(data)); ; names++ {
			if _, err := in.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		_ = plain.Close()
	}
	if names != 4 {
		t.Errorf("it has %d entries", names)
	}
}
