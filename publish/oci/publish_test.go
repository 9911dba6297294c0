package oci

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// write makes files below a new folder. A name that ends with * is executable, content "->x" is a link.
func write(t *testing.T, pairs ...string) string {
	t.Helper()
	dir := t.TempDir()
	add(t, dir, pairs...)
	return dir
}

func add(t *testing.T, dir string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name, mode := pairs[i], os.FileMode(0o644)
		if strings.HasSuffix(name, "*") {
			name, mode = strings.TrimSuffix(name, "*"), 0o755
		}
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(pairs[i+1], "->"); isLink {
			err = os.Symlink(target, full)
		} else if err = os.WriteFile(full, []byte(pairs[i+1]), mode); err == nil {
			err = os.Chmod(full, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func needsUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a file system with modes and links")
	}
}

func platforms(t *testing.T, texts ...string) (all []PlatformFiles) {
	t.Helper()
	for _, text := range texts {
		p, err := ParsePlatformFiles(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func build(t *testing.T, o Options, out string) (*Result, string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), out)
	result, err := Build(context.Background(), o, out)
	if err != nil {
		t.Fatal(err)
	}
	return result, out
}

func digestOf(t *testing.T, dir string) string {
	t.Helper()
	digest, err := tree.Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// index reads the index of a layout, and the manifests in it.
func index(t *testing.T, path string) (ocispec.Index, []ocispec.Manifest) {
	t.Helper()
	l, root, err := openLayout(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var i ocispec.Index
	read := func(digest string, into any) {
		m, err := l.manifest(distribution.Descriptor{Digest: distribution.Digest(digest)})
		if err == nil {
			err = json.Unmarshal(m.Data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read(root.Digest.String(), &i)
	manifests := make([]ocispec.Manifest, len(i.Manifests))
	for n, d := range i.Manifests {
		read(d.Digest.String(), &manifests[n])
	}
	return i, manifests
}

func TestBuilding(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	t.Run("C125 common files and files of platforms", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "run: []", "lib/a", "a", "run", "for nobody else")
		amd64, arm64 := write(t, "tool*", "amd64"), write(t, "tool*", "arm64", "run", "of its own")
		result, out := build(t, Options{Dir: dir, Platforms: platforms(t, "linux/amd64="+amd64+"=bin", "linux/arm64/v8="+arm64)}, "out")
		for n, want := range []string{
			digestOf(t, write(t, "func.yml", "run: []", "lib/a", "a", "run", "for nobody else", "bin/tool*", "amd64")),
			digestOf(t, write(t, "func.yml", "run: []", "lib/a", "a", "run", "of its own", "tool*", "arm64")),
		} {
			if got := result.Images[n].Content; got != want {
				t.Errorf("%s has the content %s, want %s", result.Images[n].Platform, got, want)
			}
		}
		i, manifests := index(t, out)
		if i.MediaType != ocispec.MediaTypeImageIndex || i.Annotations[ocispec.AnnotationCreated] != "1970-01-01T00:00:00Z" || i.Manifests[1].Platform.Variant != "" {
			t.Errorf("%+v", i)
		}
		for _, m := range manifests {
			if m.Config.MediaType != ocispec.MediaTypeImageConfig || len(m.Layers) != 2 || m.Layers[0].MediaType != "application/vnd.gitlab.step.layer.v1.tar+zstd" {
				t.Errorf("%+v", m)
			}
		}
	})
	t.Run("C125 what is the same for many platforms is stored once", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "run: []")
		var texts []string
		for _, p := range []string{"linux/amd64", "linux/arm64", "linux/arm/v7", "darwin/arm64", "windows/amd64", "freebsd/amd64"} {
			texts = append(texts, p+"="+write(t, "tool*", p))
		}
		result, out := build(t, Options{Dir: dir, Platforms: platforms(t, texts...)}, "out")
		_, manifests := index(t, out)
		for _, m := range manifests {
			if m.Layers[0].Digest != manifests[0].Layers[0].Digest || m.Layers[1].Digest == manifests[0].Layers[0].Digest {
				t.Error(m.Layers)
			}
		}
		if len(result.Images) != 6 {
			t.Error(result.Images)
		}
	})
	t.Run("C125 os.version, features and variant", func(t *testing.T) {
		t.Parallel()
		dir, own := write(t, "func.yml", "x"), write(t, "a", "b")
		_, out := build(t, Options{Dir: dir, Platforms: platforms(t, "windows/amd64:10.0.20348+win32k="+own, "linux/arm/6="+own)}, "out")
		i, _ := index(t, out)
		want := []*ocispec.Platform{
			{OS: "windows", Architecture: "amd64", OSVersion: "10.0.20348", OSFeatures: []string{"win32k"}},
			{OS: "linux", Architecture: "arm", Variant: "v6"},
		}
		if diff := cmp.Diff(want, []*ocispec.Platform{i.Manifests[0].Platform, i.Manifests[1].Platform}); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("C125 without platforms it is for all of them", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "x", "link", "->func.yml", "sub/run*", "y", ".git/config", "z", "func.yml.dsse", "{}")
		result, out := build(t, Options{Dir: dir}, "out")
		i, _ := index(t, out)
		if p := i.Manifests[0].Platform; p.OS != "generic" || p.Architecture != "generic" || result.Images[0].Content != digestOf(t, dir) {
			t.Error(p, result.Images)
		}
	})
	t.Run("C125 an empty folder is not content, and is no harm", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "x")
		before, _ := build(t, Options{Dir: dir}, "out")
		if err := os.MkdirAll(filepath.Join(dir, "empty", "er"), 0o755); err != nil {
			t.Fatal(err)
		}
		after, _ := build(t, Options{Dir: dir}, "out")
		if before.Digest != after.Digest {
			t.Error("it changed the digest")
		}
		if result, _ := build(t, Options{Dir: dir, Platforms: platforms(t, "linux/amd64="+t.TempDir())}, "out"); result.Images[0].Content != before.Images[0].Content {
			t.Error("an empty folder of a platform changed the content")
		}
	})
	t.Run("C125 what is in the folder and is a platform's is for that platform only", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "x", "build/amd64/tool*", "1", "build/arm64/tool*", "2")
		result, _ := build(t, Options{Dir: dir, Platforms: platforms(t,
			"linux/amd64="+filepath.Join(dir, "build/amd64/tool")+"=bin/tool", "linux/arm64="+filepath.Join(dir, "build/arm64"))}, "out")
		if got, want := result.Images[0].Content, digestOf(t, write(t, "func.yml", "x", "bin/tool*", "1")); got != want {
			t.Error(got, want)
		}
		if got, want := result.Images[1].Content, digestOf(t, write(t, "func.yml", "x", "tool*", "2")); got != want {
			t.Error(got, want)
		}
	})
	t.Run("C125 sockets and pipes are left out", func(t *testing.T) {
		t.Parallel()
		dir, err := os.MkdirTemp("", "s") // the path of a socket must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		add(t, dir, "func.yml", "x")
		socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
		if err != nil {
			t.Skip("needs unix sockets: " + err.Error())
		}
		defer socket.Close()
		result, _ := build(t, Options{Dir: dir}, "out")
		if len(result.Skipped) != 1 || filepath.Base(result.Skipped[0]) != "socket" || result.Images[0].Files != 1 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("C125 a rebuild is the same, byte for byte", func(t *testing.T) {
		t.Parallel()
		files := []string{"func.yml", "x", "a/b/c*", strings.Repeat("text", 100_000), "d", "->a/b/c"}
		read := func(path string) string {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		_, first := build(t, Options{Dir: write(t, files...)}, "out.tar")
		dir := write(t, files...)
		if err := os.Chtimes(filepath.Join(dir, "func.yml"), time.Now(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "func.yml"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, second := build(t, Options{Dir: dir}, "other.tar")
		if read(first) != read(second) {
			t.Error("it differs")
		}
		later, _ := build(t, Options{Dir: dir, Time: time.Unix(1_700_000_000, 0)}, "later")
		if again, _ := build(t, Options{Dir: dir, Time: time.Unix(1_700_000_000, 999)}, "later"); again.Digest != later.Digest {
			t.Error("with the same time it differs")
		}
	})
	t.Run("the archive of a layer is plain", func(t *testing.T) {
		t.Parallel()
		_, out := build(t, Options{Dir: write(t, "func.yml", "x", "a/run*", "y")}, "out")
		_, manifests := index(t, out)
		f, err := os.Open(filepath.Join(out, blobPath(distribution.Digest(manifests[0].Layers[0].Digest))))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := zstd.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		var got []string
		for in := tar.NewReader(z); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || h.Uid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
				t.Fatalf("%+v, %v", h, err)
			}
			got = append(got, h.FileInfo().Mode().String()+" "+h.Name)
		}
		if diff := cmp.Diff([]string{"drwxr-xr-x a/", "-rwxr-xr-x a/run", "-rw-r--r-- func.yml"}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("it can be written into the folder that it is made of, again and again", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "x")
		var digests []string
		for _, out := range []string{"out", "out", "out.tar", "out.tar"} {
			if out == "out.tar" {
				_ = os.RemoveAll(filepath.Join(dir, "out"))
			}
			result, err := Build(context.Background(), Options{Dir: dir}, filepath.Join(dir, out))
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, result.Digest)
		}
		if digests[0] != digests[1] || digests[0] != digests[3] {
			t.Error(digests)
		}
	})
}

func TestWhatIsNotBuilt(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	own := write(t, "a", "b")
	wrong := errors.New("line 1: wrong")
	for name, test := range map[string]struct {
		files     []string
		platforms []string
		why       string
	}{
		"no definition":                         {[]string{"readme", "x"}, nil, "holds no step"},
		"nothing at all":                        {nil, nil, "holds no step"},
		"a wrong definition":                    {[]string{"func.yml", "wrong"}, nil, "line 1: wrong"},
		"a wrong definition in a folder":        {[]string{"func.yml", "x", "sub/step.yml", "wrong"}, nil, "line 1: wrong"},
		"C125 a platform twice":                 {[]string{"func.yml", "x"}, []string{"linux/amd64=" + own, "linux/x86_64=" + own}, "linux/amd64 is defined twice"},
		"a link that leads out":                 {[]string{"func.yml", "x", "a", "->../b"}, nil, "outside"},
		"an absolute link":                      {[]string{"func.yml", "x", "a", "->/etc/passwd"}, nil, "relative"},
		"a name that an image cannot have":      {[]string{"func.yml", "x", ".wh.a", "x"}, nil, ".wh."},
		"a name that not every system has":      {[]string{"func.yml", "x", `a\b`, "x"}, nil, "not every system"},
		"a file of a platform below a file":     {[]string{"func.yml", "x", "a", "x"}, []string{"linux/amd64=" + own + "=a"}, "not a folder"},
		"files of a platform that do not exist": {[]string{"func.yml", "x"}, []string{"linux/amd64=/no/such"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Dir: write(t, test.files...), Platforms: platforms(t, test.platforms...), Compile: func(_ string, text []byte) error {
				if string(text) == "wrong" {
					return wrong
				}
				return nil
			}}
			parent := t.TempDir()
			_, err := Build(context.Background(), o, filepath.Join(parent, "out"))
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v, want %q", err, test.why)
			}
			if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
				t.Error("something is left", entries, err)
			}
		})
	}
	t.Run("over something else", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "func.yml", "x")
		for _, out := range []string{write(t, "precious", "x"), filepath.Join(write(t, "precious", "x"), "precious")} {
			if _, err := Build(context.Background(), Options{Dir: dir}, out); !errors.Is(err, ErrExists) {
				t.Error(err)
			}
		}
	})
	for text, why := range map[string]string{
		"linux/amd64": "names no files", "linux/amd64=": "names no files", "=a": "empty part", "linux/amd64=a=": "empty target",
		"linux/arm/v7/x=a": "too many slashes", "linux/amd64==b": "names no files", "linux/amd64=a=../b": "..", "linux/amd64=a=/b": "absolute",
	} {
		t.Run("C125 "+text, func(t *testing.T) {
			t.Parallel()
			if _, err := ParsePlatformFiles(text); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("got %v, want %q", err, why)
			}
		})
	}
}

func newRegistry(t *testing.T) *sourcetest.Registry {
	t.Helper()
	r := sourcetest.NewRegistry(false)
	t.Cleanup(r.Close)
	return r
}

func target(r *sourcetest.Registry, tag string) Target {
	u := r.Host() + "/steps/hello"
	return Target{
		At:  &source.Location{Kind: "oci", Name: "oci://" + u, URL: u, Access: source.Access{HTTP: r.Client()}},
		Tag: tag, Policy: download.Policy{FirstWait: time.Millisecond},
	}
}

// tags returns what each tag of the repository names.
func tags(t *testing.T, r *sourcetest.Registry) map[string]string {
	t.Helper()
	to := target(r, "")
	repository, err := distribution.Open(context.Background(), distribution.Options{At: to.At, Credentials: to.Credentials})
	if err != nil {
		t.Fatal(err)
	}
	names, err := repository.Tags(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range names {
		digest, err := repository.Resolve(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = digest.String()
	}
	return got
}

func TestPushing(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	t.Run("what is pulled is what was built", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t)
		dir := write(t, "func.yml", "run: []", "bin/run*", "#!/bin/sh", "link", "->bin/run", "empty", "")
		for _, out := range []string{"out", "out.tar"} {
			result, path := build(t, Options{Dir: dir}, out)
			pushed, err := Push(context.Background(), path, target(r, "1.0.0"))
			if err != nil || pushed.Digest != result.Digest {
				t.Fatal(pushed, err)
			}
			f := &oci.Fetcher{Cache: cache.New(t.TempDir())}
			at := target(r, "").At
			at.Rev = "1.0.0"
			pin, err := f.Resolve(context.Background(), at)
			if err != nil || pin != result.Digest {
				t.Fatal(pin, err)
			}
			w := tree.NewWriter(io.Discard)
			if err := f.Fetch(context.Background(), at, pin, w); err != nil {
				t.Fatal(err)
			}
			if got, err := w.Close(); err != nil || got != digestOf(t, dir) || got != result.Images[0].Content {
				t.Error(got, err)
			}
		}
	})
	t.Run("C126 tags move", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t)
		digests := map[string]string{}
		for _, version := range []string{"1.0.0", "1.1.0", "1.0.1", "2.0.0-rc.1", "edge"} {
			result, out := build(t, Options{Dir: write(t, "func.yml", version)}, "out")
			if _, err := Push(context.Background(), out, target(r, version)); err != nil {
				t.Fatal(err)
			}
			digests[version] = result.Digest
		}
		want := map[string]string{
			"1.0.0": digests["1.0.0"], "1.1.0": digests["1.1.0"], "1.0.1": digests["1.0.1"], "2.0.0-rc.1": digests["2.0.0-rc.1"],
			"edge": digests["edge"], "1.0": digests["1.0.1"], "1.1": digests["1.1.0"], "1": digests["1.1.0"], "latest": digests["1.1.0"],
		}
		if diff := cmp.Diff(want, tags(t, r)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a version does not change, but when it is forced to", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t)
		_, one := build(t, Options{Dir: write(t, "func.yml", "one")}, "out")
		two, other := build(t, Options{Dir: write(t, "func.yml", "two")}, "out")
		for range 2 { // the same again is fine
			if _, err := Push(context.Background(), one, target(r, "1.0.0")); err != nil {
				t.Fatal(err)
			}
		}
		uploads := r.Count("PUT", "/blobs/")
		again, err := Push(context.Background(), one, target(r, "1.0.0"))
		if err != nil || !again.Unchanged || r.Count("PUT", "/blobs/") != uploads {
			t.Error(again, err)
		}
		before := tags(t, r)
		var denied *source.DeniedError
		if _, err := Push(context.Background(), other, target(r, "1.0.0")); !errors.As(err, &denied) || !strings.Contains(denied.Hint, "--force") {
			t.Error(err)
		}
		if diff := cmp.Diff(before, tags(t, r)); diff != "" {
			t.Error(diff)
		}
		to := target(r, "1.0.0")
		to.Force, to.NoFloat = true, true
		if _, err := Push(context.Background(), other, to); err != nil {
			t.Fatal(err)
		}
		before["1.0.0"] = two.Digest
		if diff := cmp.Diff(before, tags(t, r)); diff != "" {
			t.Error(diff)
		}
	})
	for name, auth := range map[string]sourcetest.Auth{"basic": sourcetest.Basic, "token": sourcetest.Token, "a token that everybody gets for reading": sourcetest.Anonymous} {
		t.Run("logging in: "+name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.Auth, r.Username, r.Password = auth, "me", "s3cr3t"
			_, out := build(t, Options{Dir: write(t, "func.yml", "x")}, "out")
			to := target(r, "1.0.0")
			var denied *source.DeniedError
			if _, err := Push(context.Background(), out, to); !errors.As(err, &denied) {
				t.Error(err)
			}
			to.At.Access.Username, to.At.Access.Password = "me", "s3cr3t"
			if _, err := Push(context.Background(), out, to); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("what is not a layout, or a damaged one", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t)
		_, out := build(t, Options{Dir: write(t, "func.yml", "x")}, "out")
		i, _ := index(t, out)
		if err := os.WriteFile(filepath.Join(out, blobPath(distribution.Digest(i.Manifests[0].Digest))), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		text := filepath.Join(write(t, "text", "no archive"), "text")
		for _, path := range []string{out, text, filepath.Join(out, "missing"), write(t, "a", "b")} {
			if _, err := Push(context.Background(), path, target(r, "1.0.0")); err == nil {
				t.Errorf("%s was pushed", path)
			}
		}
		if n := len(tags(t, r)); n != 0 {
			t.Errorf("there are %d tags", n)
		}
	})
}
