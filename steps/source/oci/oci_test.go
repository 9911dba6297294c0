package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

func newFetcher(t *testing.T) *Fetcher {
	t.Helper()
	return &Fetcher{
		Cache: cache.New(t.TempDir()), Platform: Platform{OS: "linux", Architecture: "amd64"},
		Policy: download.Policy{FirstWait: time.Millisecond},
	}
}

func newRegistry(t *testing.T, tls bool) *sourcetest.Registry {
	t.Helper()
	r := sourcetest.NewRegistry(tls)
	t.Cleanup(r.Close)
	return r
}

func at(r *sourcetest.Registry, repository, rev string) *source.Location {
	u := r.Host() + "/" + repository
	return &source.Location{Kind: "oci", Name: "oci://" + u, URL: u, Rev: rev, Access: source.Access{HTTP: r.Client()}}
}

// folder makes a folder with a definition that says what it is, and something to execute.
func folder(t *testing.T, what string) (dir, digest string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range map[string]string{"func.yml": "# " + what + "\n", "sub/other.yml": what, "run.sh": strings.Repeat(what+"\n", 1000)} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	digest, err := tree.Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func zst(data []byte) []byte { return must(zstd.NewWriter(nil)).EncodeAll(data, nil) }

// step stores a component as the existing step-runner's builder does, and returns its manifest.
func step(t *testing.T, r *sourcetest.Registry, repository, tag, what string) (manifest ocispec.Descriptor, content string) {
	t.Helper()
	dir, content := folder(t, what)
	layer := must(r.PutBlob(repository, LayerMediaType, zst(must(sourcetest.Tar(dir, "")))))
	return must(r.PutImage(repository, tag, "", layer)), content
}

func forPlatform(d ocispec.Descriptor, platform string) ocispec.Descriptor {
	p := must(ParsePlatform(platform))
	d.Platform = &ocispec.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, OSVersion: p.OSVersion, OSFeatures: p.OSFeatures}
	return d
}

func fetch(f *Fetcher, at *source.Location, pin string) (content string, err error) {
	w := tree.NewWriter(io.Discard)
	if err := f.Fetch(context.Background(), at, pin, w); err != nil {
		return "", err
	}
	return w.Close()
}

func pulled(t *testing.T, f *Fetcher, at *source.Location, want string) {
	t.Helper()
	pin, err := f.Resolve(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fetch(f, at, pin); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestPulling(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"over TLS": true, "from a registry on this machine without TLS": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := newRegistry(t, tls), newFetcher(t)
			m, content := step(t, r, "steps/hello", "", "hello")
			index := must(r.PutIndex("steps/hello", "1.0", forPlatform(m, "linux/amd64")))
			pin, err := f.Resolve(context.Background(), at(r, "steps/hello", "1.0"))
			if err != nil || pin != index.Digest.String() {
				t.Fatal(pin, err)
			}
			if got, err := fetch(f, at(r, "steps/hello", "1.0"), pin); err != nil || got != content {
				t.Error(got, err)
			}
			if entries := must(os.ReadDir(filepath.Join(f.Cache.Dir(), "downloads"))); len(entries) != 0 {
				t.Errorf("%d files of downloads are left", len(entries))
			}
		})
	}
	t.Run("plain HTTP that was asked for", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		_, content := step(t, r, "hello", "latest", "hello")
		loc := at(r, "hello", "")
		loc.Access.PlainHTTP = true
		pulled(t, f, loc, content)
	})
	t.Run("a certificate that nobody knows is not worked around", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, true), newFetcher(t)
		loc := at(r, "hello", "1")
		loc.Access.HTTP = nil
		var failed *source.FetchError
		if _, err := f.Resolve(context.Background(), loc); !errors.As(err, &failed) || len(r.Requests()) != 0 {
			t.Error(err, len(r.Requests()))
		}
	})
	t.Run("C120 an index is followed, and a plain image and an artifact are taken as they are", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		dir, content := folder(t, "image")
		plain := must(sourcetest.Tar(dir, ""))
		image := must(r.PutBlob("a", ocispec.MediaTypeImageLayerGzip, sourcetest.Gzip(plain)))
		must(r.PutImage("a", "image", "", image))
		must(r.PutImage("a", "docker", "application/vnd.docker.container.image.v1+json",
			must(r.PutBlob("a", "application/vnd.docker.image.rootfs.diff.tar.gzip", sourcetest.Gzip(plain)))))
		must(r.PutImage("a", "artifact", "application/vnd.oci.empty.v1+json", must(r.PutBlob("a", "application/vnd.example.tar", plain))))
		m := must(r.PutImage("a", "", "", image))
		inner := must(r.PutIndex("a", "", forPlatform(m, "linux/amd64")))
		must(r.PutIndex("a", "index-in-index", inner))
		for _, tag := range []string{"image", "docker", "artifact", "index-in-index"} {
			pulled(t, f, at(r, "a", tag), content)
		}
	})
	t.Run("an artifact of single files", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		dir := t.TempDir()
		var layers []ocispec.Descriptor
		for _, name := range []string{"func.yml", "run.txt"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
			d := must(r.PutBlob("a", "application/vnd.oci.image.layer.v1.tar", []byte(name)))
			d.Annotations = map[string]string{ocispec.AnnotationTitle: name}
			layers = append(layers, d)
		}
		must(r.PutImage("a", "1", "application/vnd.unknown.config.v1+json", layers...))
		pulled(t, f, at(r, "a", "1"), must(tree.Digest(dir)))
	})
	t.Run("layers of images lie over each other", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		dir, content := folder(t, "image")
		base := tarOf("func.yml", "old", "gone/x", "1", "dev/null", "device")
		top := append(must(sourcetest.Tar(dir, "")), []byte{}...)
		must(r.PutImage("a", "1", "", must(r.PutBlob("a", ocispec.MediaTypeImageLayer, base)),
			must(r.PutBlob("a", ocispec.MediaTypeImageLayerZstd, zst(tarOf(".wh.gone", "")))),
			must(r.PutBlob("a", ocispec.MediaTypeImageLayerGzip, sourcetest.Gzip(top)))))
		pulled(t, f, at(r, "a", "1"), content)
	})
	t.Run("C120 a missing image says which part is missing", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		step(t, r, "there", "1", "x")
		for _, loc := range []*source.Location{at(r, "there", "2"), at(r, "not/there", "1")} {
			_, err := f.Resolve(context.Background(), loc)
			var missing *source.NotFoundError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), "the tag "+loc.Rev) {
				t.Error(err)
			}
		}
		_, err := fetch(f, at(r, "there", "1"), digest.FromString("other").String())
		var missing *source.NotFoundError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "the manifest sha256:") {
			t.Error(err)
		}
	})
	t.Run("C121 what is for another platform is not taken, and the platforms that are there are named", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		m, _ := step(t, r, "a", "", "hello")
		index := must(r.PutIndex("a", "1", forPlatform(m, "linux/arm64"), forPlatform(m, "windows/amd64:10.0.1")))
		_, err := fetch(f, at(r, "a", "1"), index.Digest.String())
		var missing *source.NotFoundError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "linux/amd64; it is for linux/arm64, windows/amd64:10.0.1") {
			t.Error(err)
		}
	})
	t.Run("C121 each platform gets its own", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t, false)
		var entries []ocispec.Descriptor
		want := map[string]string{}
		for _, platform := range []string{"linux/amd64", "linux/arm64/v8", "windows/amd64", "generic"} {
			m, content := step(t, r, "a", "", platform)
			want[platform] = content
			entries = append(entries, forPlatform(m, platform))
		}
		must(r.PutIndex("a", "1", entries...))
		for asked, gets := range map[string]string{
			"linux/amd64": "linux/amd64", "linux/arm64": "linux/arm64/v8", "windows/amd64": "windows/amd64", "darwin/arm64": "generic",
		} {
			f := newFetcher(t)
			f.Platform = must(ParsePlatform(asked))
			pulled(t, f, at(r, "a", "1"), want[gets])
			if f.Variant() != asked {
				t.Error(f.Variant())
			}
		}
	})
	t.Run("C122 a digest is its own pin, without asking", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		m, content := step(t, r, "a", "1", "hello")
		for _, rev := range []string{m.Digest.String(), "1@" + m.Digest.String()} {
			before := len(r.Requests())
			pin, err := f.Resolve(context.Background(), at(r, "a", rev))
			if err != nil || pin != m.Digest.String() || len(r.Requests()) != before {
				t.Error(pin, err)
			}
			pulled(t, f, at(r, "a", rev), content)
		}
	})
	t.Run("C123 what is in folders and under other names is all there", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		m, content := step(t, r, "a", "1", "hello")
		var pack bytes.Buffer
		w := tree.NewWriter(&pack)
		if err := f.Fetch(context.Background(), at(r, "a", "1"), m.Digest.String(), w); err != nil {
			t.Fatal(err)
		}
		if got := must(w.Close()); got != content {
			t.Fatal(got)
		}
		dir := filepath.Join(t.TempDir(), "out")
		must(tree.Extract(&pack, content, dir, ""))
		if got := string(must(os.ReadFile(filepath.Join(dir, "sub", "other.yml")))); got != "hello" {
			t.Error(got)
		}
		if info := must(os.Stat(filepath.Join(dir, "run.sh"))); info.Mode()&0o100 == 0 {
			t.Error("it cannot be executed any more")
		}
	})
}

func tarOf(pairs ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(pairs); i += 2 {
		h := &tar.Header{Name: pairs[i], Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(pairs[i+1]))}
		if pairs[i+1] == "device" {
			h.Typeflag, h.Size = tar.TypeChar, 0
		}
		_ = w.WriteHeader(h)
		if h.Size > 0 {
			_, _ = io.WriteString(w, pairs[i+1])
		}
	}
	_ = w.Close()
	return out.Bytes()
}

type docker map[string][2]string

func (d docker) Registry(_ context.Context, registry, repository string) (user, password string, ok bool, err error) {
	for _, key := range []string{registry + "/" + repository, registry} {
		if pair, ok := d[key]; ok {
			return pair[0], pair[1], true, nil
		}
	}
	return "", "", false, nil
}

func TestLoggingIn(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]sourcetest.Auth{"basic": sourcetest.Basic, "token": sourcetest.Token} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, true)
			r.Auth, r.Username, r.Password = auth, "me", "s3cr3t"
			_, content := step(t, r, "private/hello", "1", "hello")
			in, out := [2]string{"me", "s3cr3t"}, [2]string{"me", "wrong"}
			for name, test := range map[string]struct {
				credentials Credentials
				works       bool
			}{
				"C124 none":                              {nil, false},
				"C124 empty":                             {docker{}, false},
				"C124 of another host":                   {docker{"registry.example.com": in}, false},
				"C124 of the registry":                   {docker{r.Host(): in}, true},
				"C124 of the repository":                 {docker{r.Host() + "/private/hello": in, r.Host(): out}, true},
				"C124 wrong":                             {docker{r.Host(): out}, false},
				"an identity token, where there are any": {docker{r.Host(): {"<token>", "s3cr3t"}}, auth == sourcetest.Token},
			} {
				t.Run(name, func(t *testing.T) {
					f := newFetcher(t)
					f.Credentials = test.credentials
					if test.works {
						pulled(t, f, at(r, "private/hello", "1"), content)
						return
					}
					_, err := f.Resolve(context.Background(), at(r, "private/hello", "1"))
					var denied *source.DeniedError
					if !errors.As(err, &denied) || !strings.Contains(denied.Hint, "docker login") || strings.Contains(err.Error(), "s3cr3t") {
						t.Errorf("%v", err)
					}
				})
			}
			t.Run("C124 of the source's owner", func(t *testing.T) {
				f, loc := newFetcher(t), at(r, "private/hello", "1")
				f.Credentials = docker{r.Host(): out}
				loc.Access.Username, loc.Access.Password = "me", "s3cr3t"
				pulled(t, f, loc, content)
			})
		})
	}
	t.Run("a token for everybody", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t, false)
		r.Auth = sourcetest.Anonymous
		_, content := step(t, r, "public/hello", "1", "hello")
		pulled(t, newFetcher(t), at(r, "public/hello", "1"), content)
	})
	t.Run("credentials do not follow a layer to another host", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, true), newFetcher(t)
		r.Auth, r.Username, r.Password = sourcetest.Basic, "me", "s3cr3t"
		_, content := step(t, r, "a", "1", "hello")
		elsewhere := newRegistry(t, true)
		step(t, elsewhere, "a", "1", "hello")
		r.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
			_, _, known := req.BasicAuth()
			if known && strings.Contains(req.URL.Path, "/blobs/sha256:") {
				http.Redirect(w, req, elsewhere.URL+req.URL.Path, http.StatusTemporaryRedirect)
				return true
			}
			return false
		}
		f.Credentials = docker{r.Host(): {"me", "s3cr3t"}}
		pulled(t, f, at(r, "a", "1"), content)
		if len(elsewhere.Requests()) == 0 {
			t.Error("nothing was fetched from there")
		}
		for _, req := range elsewhere.Requests() {
			if req.Header.Get("Authorization") != "" {
				t.Error("another host got the credentials")
			}
		}
	})
}

func TestRegistriesThatFail(t *testing.T) {
	t.Parallel()
	isLayer := func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/blobs/sha256:") }
	t.Run("down in the middle of a layer: it goes on", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		dir, content := folder(t, "x")
		data := must(sourcetest.Tar(dir, ""))
		must(r.PutImage("a", "1", "", must(r.PutBlob("a", ocispec.MediaTypeImageLayer, data))))
		var n, ranged atomic.Int32
		r.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
			if !isLayer(req) {
				return false
			}
			if n.Add(1) == 1 {
				sourcetest.BreakOff(w, data, 1000)
			}
			if req.Header.Get("Range") == "bytes=1000-" {
				ranged.Add(1)
			}
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data))
			return true
		}
		var last event.Progress
		ctx := source.WithProgress(context.Background(), func(p event.Progress) { last = p })
		loc := at(r, "a", "1")
		w := tree.NewWriter(io.Discard)
		if err := f.Fetch(ctx, loc, must(f.Resolve(ctx, loc)), w); err != nil {
			t.Fatal(err)
		}
		if got := must(w.Close()); got != content || ranged.Load() != 1 {
			t.Error(got, ranged.Load())
		}
		if !last.Done || last.Current != int64(len(data)) || last.Total != int64(len(data)) {
			t.Errorf("%+v", last)
		}
	})
	t.Run("down for good", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		m, _ := step(t, r, "a", "1", "x")
		r.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
			if isLayer(req) {
				w.WriteHeader(http.StatusBadGateway)
				return true
			}
			return false
		}
		_, err := fetch(f, at(r, "a", "1"), m.Digest.String())
		var failed *source.FetchError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "layer 1 of 1") {
			t.Error(err)
		}
		if n := r.Count(http.MethodGet, "/blobs/"); n != download.DefaultAttempts {
			t.Errorf("it was tried %d times", n)
		}
	})
	for name, spoil := range map[string]func([]byte) []byte{
		"a layer with other bytes":  func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"a layer that is longer":    func(b []byte) []byte { return append(bytes.Clone(b), 0) },
		"a layer that is shorter":   func(b []byte) []byte { return b[:len(b)-1] },
		"a manifest of other bytes": nil,
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			t.Parallel()
			r, f := newRegistry(t, false), newFetcher(t)
			dir, _ := folder(t, "x")
			data := sourcetest.Gzip(must(sourcetest.Tar(dir, "")))
			m := must(r.PutImage("a", "1", "", must(r.PutBlob("a", ocispec.MediaTypeImageLayerGzip, data))))
			r.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
				if spoil != nil && isLayer(req) {
					_, _ = w.Write(spoil(data))
					return true
				}
				if spoil == nil && req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/manifests/") {
					w.Header().Set("Content-Type", m.MediaType)
					_, _ = w.Write(must(json.Marshal(ocispec.Manifest{MediaType: m.MediaType})))
					return true
				}
				return false
			}
			_, err := fetch(f, at(r, "a", "1"), m.Digest.String())
			var denied *source.DeniedError
			if !errors.As(err, &denied) || !strings.Contains(err.Error(), "expected") {
				t.Error(err)
			}
		})
	}
	t.Run("a registry that does not say digests", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		m, _ := step(t, r, "a", "1", "x")
		r.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodHead {
				w.WriteHeader(http.StatusOK)
				return true
			}
			return false
		}
		if pin, err := f.Resolve(context.Background(), at(r, "a", "1")); err != nil || pin != m.Digest.String() {
			t.Error(pin, err)
		}
	})
	t.Run("what cannot be a repository, a tag or a digest", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		for _, loc := range []*source.Location{at(r, "Upper", "1"), at(r, "a/../b", "1"), at(r, "a", "-x"), at(r, "a", "sha256:12"), at(r, "a", "a b"), at(r, "", "1")} {
			var denied *source.DeniedError
			if _, err := f.Resolve(context.Background(), loc); !errors.As(err, &denied) {
				t.Errorf("%s:%s: %v", loc.URL, loc.Rev, err)
			}
		}
	})
	t.Run("what a manifest must not say", func(t *testing.T) {
		t.Parallel()
		r, f := newRegistry(t, false), newFetcher(t)
		layer := must(r.PutBlob("a", ocispec.MediaTypeImageLayer, tarOf("a", "b")))
		for why, change := range map[string]func(*ocispec.Manifest){
			"limit":         func(m *ocispec.Manifest) { m.Layers[0].Size = MaxSize + 1 },
			"more than 512": func(m *ocispec.Manifest) { m.Layers = make([]ocispec.Descriptor, MaxLayers+1) },
			"encrypted":     func(m *ocispec.Manifest) { m.Layers[0].MediaType += "+encrypted" },
			"owner": func(m *ocispec.Manifest) {
				m.Layers[0].MediaType = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
			},
			"no valid": func(m *ocispec.Manifest) { m.Layers[0].Digest = "sha256:../../x" },
			"negative": func(m *ocispec.Manifest) { m.Layers[0].Size = -1 },
		} {
			m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{layer}}
			change(&m)
			data := must(json.Marshal(m))
			if _, err := ReadManifest(at(r, "a", "1"), data); err == nil {
				t.Errorf("%s: it was taken", why)
			}
		}
		_ = f
	})
}
