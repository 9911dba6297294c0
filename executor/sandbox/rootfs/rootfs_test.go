//go:build unix

package rootfs_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor/sandbox/rootfs"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// entry is one of a layer.
type entry struct {
	kind    byte
	name    string
	target  string
	mode    int64
	content string
}

func file(name, content string) entry { return entry{tar.TypeReg, name, "", 0o644, content} }

func layer(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.target, Mode: e.mode, Size: int64(len(e.content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const config = `{"os":"linux","config":{"Env":["A=1"],"Entrypoint":["/start"],"User":"worker"}}`

// saved writes an image as docker save does, and returns the store with it. The name of the image is "it".
func saved(t *testing.T, layers ...[]byte) *rootfs.Store {
	t.Helper()
	var names []string
	entries := []entry{file("config.json", config)}
	for i, data := range layers {
		names = append(names, fmt.Sprintf("layer%d.tar", i))
		entries = append(entries, file(names[i], string(data)))
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{"it:latest"}, "Layers": names}})
	if err != nil {
		t.Fatal(err)
	}
	s := &rootfs.Store{Folder: filepath.Join(t.TempDir(), "store"), Saved: t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.Saved, "it.tar"), layer(t, append(entries, file("manifest.json", string(manifest)))...), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// tree is what is in a root, but for what every sandbox needs: contents of files, targets of links.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case strings.HasPrefix(name, "opt/rung/"), strings.HasPrefix(name, "etc/") && info.Size() == 0:
			return nil
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			found[name] = "-> " + target
			return err
		}
		text, err := os.ReadFile(path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLayersLieOverEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]entry
		want   map[string]string
	}{
		"a file of a higher layer replaces one": {
			[][]entry{{file("a", "old"), file("b", "b")}, {file("a", "new")}}, map[string]string{"a": "new", "b": "b"},
		},
		"a file is removed": {
			[][]entry{{file("d/a", "a"), file("d/b", "b")}, {file("d/.wh.a", "")}}, map[string]string{"d/b": "b"},
		},
		"a folder is replaced, whatever the order of its layer": {
			[][]entry{{file("d/a", "a"), file("d/sub/b", "b")}, {file("d/new", "new"), file("d/.wh..wh..opq", ""), file("d/newer", "newer")}},
			map[string]string{"d/new": "new", "d/newer": "newer"},
		},
		"a folder in place of a file, and a file in place of a folder": {
			[][]entry{{file("a", "a"), file("d/b", "b")}, {file("a/x", "x"), file("d", "d")}}, map[string]string{"a/x": "x", "d": "d"},
		},
		"a link to a folder is followed as in the image": {
			[][]entry{{{tar.TypeDir, "run", "", 0o755, ""}, {tar.TypeSymlink, "var/run", "/run", 0o777, ""}, {tar.TypeSymlink, "up", "../../run", 0o777, ""}}, {file("var/run/pid", "1"), file("up/b", "2")}},
			map[string]string{"run/pid": "1", "run/b": "2", "var/run": "-> /run", "up": "-> ../../run"},
		},
		"a hard link": {
			[][]entry{{file("a", "a"), {tar.TypeLink, "b", "/a", 0o644, ""}}}, map[string]string{"a": "a", "b": "a"},
		},
		"devices are left out, and names may be absolute": {
			[][]entry{{{tar.TypeChar, "dev/null", "", 0o666, ""}, file("/x/y", "y")}}, map[string]string{"x/y": "y"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for i, entries := range c.layers {
				data := layer(t, entries...)
				if i%2 == 1 {
					data = compressed(t, data)
				}
				layers = append(layers, data)
			}
			it, err := saved(t, layers...).Find(t.Context(), rootfs.Request{Name: "it"})
			if err != nil || it == nil {
				t.Fatal(it, err)
			}
			if diff := cmp.Diff(c.want, tree(t, it.Root)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(rootfs.Config{Env: []string{"A=1"}, Entrypoint: []string{"/start"}, User: "worker"}, it.Config); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingIsWrittenOutsideOfARoot(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("safe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, entries := range map[string][]entry{
		"by ..":                       {file("../../escaped", "x")},
		"through a link":              {{tar.TypeSymlink, "l", outside, 0o777, ""}, file("l/victim", "x"), file("l/escaped", "x")},
		"through links in a row":      {{tar.TypeSymlink, "a", "../../../../../../../..", 0o777, ""}, {tar.TypeSymlink, "b", "a" + outside, 0o777, ""}, file("b/victim", "x")},
		"by a hard link":              {{tar.TypeLink, "l", victim, 0o644, ""}, file("l", "x")},
		"by a hard link with ..":      {{tar.TypeLink, "l", "../../" + victim, 0o644, ""}},
		"by a mark through a link":    {{tar.TypeSymlink, "l", outside, 0o777, ""}, file("l/.wh.victim", "")},
		"by an opaque mark of a link": {{tar.TypeSymlink, "l", outside, 0o777, ""}, file("l/.wh..wh..opq", "")},
		"by a mark for ..":            {file("a/.wh...", "")},
		"by links that never end":     {{tar.TypeSymlink, "a", "b", 0o777, ""}, {tar.TypeSymlink, "b", "a", 0o777, ""}, file("a/x", "x")},
		"over what is mounted":        {{tar.TypeSymlink, "builds", outside, 0o777, ""}, {tar.TypeSymlink, "opt/rung/run", outside, 0o777, ""}, {tar.TypeSymlink, "etc", outside, 0o777, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := saved(t, layer(t, entries...))
			it, err := s.Find(t.Context(), rootfs.Request{Name: "it"})
			t.Logf("%v %v", it, err)
			left, readErr := os.ReadDir(outside)
			text, _ := os.ReadFile(victim)
			if readErr != nil || len(left) != 1 || string(text) != "safe" {
				t.Errorf("outside there is now %v, %q", left, text)
			}
			if info, err := os.Stat(outside); err != nil || info.Mode().Perm()&0o022 != 0 {
				t.Errorf("outside has now the mode %v (%v)", info.Mode(), err)
			}
			if made, _ := filepath.Glob(filepath.Join(s.Folder, "new-*")); err != nil && len(made) > 0 {
				t.Errorf("left: %v", made)
			}
		})
	}
}

func TestSavedImagesInEveryForm(t *testing.T) {
	data := layer(t, file("a", "a"))
	sum := func(data []byte) string {
		s := sha256.Sum256(data)
		return hex.EncodeToString(s[:])
	}
	put := func(dir, name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &rootfs.Store{Folder: filepath.Join(t.TempDir(), "store"), Saved: t.TempDir()}
	layout := filepath.Join(s.Saved, "group/layout:1")
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"config":{"digest":"sha256:%s"},"layers":[{"digest":"sha256:%s"}]}`, sum([]byte(config)), sum(data))
	put(layout, "index.json", fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"digest":"sha256:%s"}]}`, sum(manifest)))
	put(layout, "blobs/sha256/"+sum(manifest), manifest)
	put(layout, "blobs/sha256/"+sum([]byte(config)), []byte(config))
	put(layout, "blobs/sha256/"+sum(data), data)
	put(filepath.Join(s.Saved, "folder"), "a", []byte("a"))
	for _, name := range []string{"group/layout:1", "folder"} {
		it, err := s.Find(t.Context(), rootfs.Request{Name: name})
		if err != nil || it == nil {
			t.Errorf("%s: %v, %v", name, it, err)
			continue
		}
		if diff := cmp.Diff(map[string]string{"a": "a"}, tree(t, it.Root)); diff != "" {
			t.Error(name, diff)
		}
	}
	for _, name := range []string{"nothing", "../" + filepath.Base(s.Saved) + "/folder", "/etc", ".."} {
		if it, err := s.Find(t.Context(), rootfs.Request{Name: name}); it != nil || err != nil {
			t.Errorf("%s: %v, %v", name, it, err)
		}
	}
}

func TestImagesAreFetchedOnce(t *testing.T) {
	registry := sourcetest.NewRegistry(false)
	defer registry.Close()
	d, err := registry.PutBlob("group/app", "application/vnd.oci.image.layer.v1.tar+gzip", compressed(t, layer(t, file("a", "a"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.PutImage("group/app", "1", "", d); err != nil {
		t.Fatal(err)
	}
	registry.Protect(sourcetest.Basic, "user", "pass")
	s := &rootfs.Store{Folder: filepath.Join(t.TempDir(), "store")}
	r := rootfs.Request{Name: registry.Host() + "/group/app:1", Username: "user", Password: "pass"}
	if it, err := s.Find(t.Context(), r); it != nil || err != nil {
		t.Fatal(it, err)
	}
	var progress int64
	for range 2 {
		it, err := s.Pull(t.Context(), r, func(current, _ int64) { progress = current })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": "a"}, tree(t, it.Root)); diff != "" || !strings.HasPrefix(it.Pull, registry.Host()+"/group/app@sha256:") || progress == 0 {
			t.Errorf("%+v %s", it, diff)
		}
	}
	if n := registry.Count("GET", "/blobs/"+d.Digest.String()); n != 1 {
		t.Errorf("the layer was fetched %d times", n)
	}
	if it, err := s.Find(t.Context(), r); it == nil || err != nil {
		t.Error(it, err)
	}
	var missing *source.NotFoundError
	if _, err := s.Pull(t.Context(), rootfs.Request{Name: registry.Host() + "/group/app:2", Username: "user", Password: "pass"}, nil); !errors.As(err, &missing) {
		t.Errorf("a tag that does not exist: %v", err)
	}
	var denied *source.DeniedError
	if _, err := s.Pull(t.Context(), rootfs.Request{Name: registry.Host() + "/group/app:1", Username: "user", Password: "wrong"}, nil); !errors.As(err, &denied) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := s.Pull(t.Context(), rootfs.Request{Name: registry.Host() + "/group/app:1", Platform: "nonsense", Username: "user", Password: "pass"}, nil); !errors.As(err, &denied) {
		t.Errorf("a platform that is none: %v", err)
	}
}

func TestARootIsFurnishedByManyAtOnce(t *testing.T) {
	for range 50 {
		dir, wrong := t.TempDir(), make(chan error)
		const many = 8
		for range many {
			go func() { wrong <- rootfs.Furnish(dir) }()
		}
		for range many {
			if err := <-wrong; err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAnImageIsRemovedWhenNobodyHasIt(t *testing.T) {
	s := saved(t, layer(t, file("a", "a")))
	find := func() *rootfs.Image {
		t.Helper()
		i, err := s.Find(t.Context(), rootfs.Request{Name: "it"})
		if err != nil || i == nil {
			t.Fatalf("%+v, %v", i, err)
		}
		return i
	}
	i := find()
	if !i.Unpacked || find().Unpacked || s.FolderOf(i.ID) != filepath.Dir(i.Root) {
		t.Errorf("%+v is not unpacked once", i)
	}
	other := &rootfs.Store{Folder: s.Folder} // of another process
	one, here := s.Use(i)
	two, alsoHere := other.Use(i)
	if !here || !alsoHere || !s.Busy(i.ID) {
		t.Fatal("two cannot have it")
	}
	one()
	if err := s.Remove(i.ID); !errors.Is(err, rootfs.ErrInUse) {
		t.Errorf("what another process has is removed: %v", err)
	}
	two()
	for range 2 { // what is not there is no error
		if err := s.Remove(i.ID); err != nil || s.FolderOf(i.ID) != "" || s.Busy(i.ID) {
			t.Errorf("it is not removed: %v", err)
		}
	}
	if _, here := s.Use(i); here {
		t.Error("what is gone can be had")
	}
	if left, err := os.ReadDir(s.Folder); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
	if !find().Unpacked {
		t.Error("it is not unpacked again")
	}
}
