package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/internal/schematest"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// registry starts a container registry for a script, whose address is then in $REGISTRY: registry [USER PASSWORD].
func registry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 && len(args) != 2 {
		ts.Fatalf("usage: registry [USER PASSWORD]")
	}
	r := sourcetest.NewRegistry(false)
	ts.Defer(r.Close)
	if len(args) == 2 {
		r.Protect(sourcetest.Token, args[0], args[1])
	}
	ts.Setenv("REGISTRY", r.Host())
	registries.Store(r.Host(), r)
	ts.Defer(func() { registries.Delete(r.Host()) })
}

// registries are those of the scripts that run, by their addresses.
var registries sync.Map

// image puts an image into the registry of a script, or moves a tag to it, and leaves its digest in $DIGEST: image REPOSITORY TAG TEXT. The
// text is in the image's file /text; where this machine has a busybox, it has the shell and the tools of it, too.
func image(ts *testscript.TestScript, neg bool, args []string) {
	found, ok := registries.Load(ts.Getenv("REGISTRY"))
	if neg || len(args) != 3 || !ok {
		ts.Fatalf("usage: registry; image REPOSITORY TAG TEXT")
	}
	r := found.(*sourcetest.Registry)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		ts.Check(w.WriteHeader(&h))
		_, err := w.Write(content)
		ts.Check(err)
	}
	add(tar.Header{Name: "text", Mode: 0o644, Typeflag: tar.TypeReg}, []byte(args[2]))
	if busybox, err := os.ReadFile("/bin/busybox"); err == nil {
		add(tar.Header{Name: "bin/busybox", Mode: 0o755, Typeflag: tar.TypeReg}, busybox)
		for _, name := range []string{"sh", "cat", "sleep", "mkdir", "rm", "ls", "chmod"} {
			add(tar.Header{Name: "bin/" + name, Linkname: "busybox", Typeflag: tar.TypeSymlink}, nil)
		}
	}
	ts.Check(w.Close())
	put := func(kind string, data []byte) ocispec.Descriptor {
		blob, err := r.PutBlob(args[0], kind, data)
		ts.Check(err)
		return blob
	}
	layer := put("application/vnd.docker.image.rootfs.diff.tar", files.Bytes())
	config := put("application/vnd.docker.container.image.v1+json", fmt.Appendf(nil,
		`{"architecture":%q,"os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":[%q]}}`, runtime.GOARCH, layer.Digest))
	const kind = "application/vnd.docker.distribution.manifest.v2+json"
	made, err := r.PutManifest(args[0], args[1], kind, map[string]any{"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []ocispec.Descriptor{layer}})
	ts.Check(err)
	ts.Setenv("DIGEST", made.Digest.String())
}

// valid holds a file in TOML against a schema: valid SCHEMA FILE.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: valid SCHEMA FILE")
	}
	schema, err := schematest.New([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	if err := schema.TOML(ts.ReadFile(args[1])); (err == nil) == neg {
		ts.Fatalf("%s: %v", args[1], err)
	}
}

// expand puts the address of the registry in the place of ${REGISTRY} in files: expand FILE...
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, file := range args {
		text := strings.ReplaceAll(ts.ReadFile(file), "${REGISTRY}", ts.Getenv("REGISTRY"))
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
	}
}

// pull fetches an image and checks its content digest against that of a folder: pull REPOSITORY TAG FOLDER.
func pull(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: pull REPOSITORY TAG FOLDER")
	}
	want, err := tree.Digest(ts.MkAbs(args[2]))
	ts.Check(err)
	temp, err := os.MkdirTemp("", "step-runner-")
	ts.Check(err)
	defer os.RemoveAll(temp)
	f := &oci.Fetcher{Cache: cache.New(temp)}
	url := ts.Getenv("REGISTRY") + "/" + args[0]
	at := &source.Location{Name: "oci://" + url, URL: url, Rev: args[1]}
	pin, err := f.Resolve(context.Background(), at)
	ts.Check(err)
	w := tree.NewWriter(io.Discard)
	ts.Check(f.Fetch(context.Background(), at, pin, w))
	got, err := w.Close()
	ts.Check(err)
	if got != want {
		ts.Fatalf("%s:%s has the content %s, want %s", args[0], args[1], got, want)
	}
}
