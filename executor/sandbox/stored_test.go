//go:build unix

package sandbox_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/sandbox"
	"github.com/rungci/rung/executor/sandbox/direct"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/containers"
)

// saveImages writes images as docker save does, which differ in a file, into a folder.
func saveImages(t *testing.T, folder string, names ...string) {
	t.Helper()
	root := t.TempDir()
	enginetest.Tree(t, root)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(root, "which"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		var layer, image bytes.Buffer
		w := tar.NewWriter(&layer)
		if err := errors.Join(w.AddFS(os.DirFS(root)), w.Close()); err != nil {
			t.Fatal(err)
		}
		manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name + ":latest"}, "Layers": []string{"layer.tar"}}})
		if err != nil {
			t.Fatal(err)
		}
		w = tar.NewWriter(&image)
		for _, f := range []struct {
			name    string
			content []byte
		}{{"manifest.json", manifest}, {"config.json", []byte(`{"os": "linux", "config": {"Env": ["PATH=/bin"]}}`)}, {"layer.tar", layer.Bytes()}} {
			err = errors.Join(err, w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.content))}))
			_, wrong := w.Write(f.content)
			err = errors.Join(err, wrong)
		}
		if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(folder, name+".tar"), image.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// unpacking is a level without an engine that has images in files. A nil book is that of a program that keeps no record.
func unpacking(t *testing.T, o direct.Options, book *usage.Book) *sandbox.Executor {
	t.Helper()
	e, err := sandbox.New(t.Context(), executor.Setup{State: t.TempDir(), Uses: book, Program: func(string, string) (string, error) { return executortest.Program() }}, sandbox.Options{Way: sandbox.Directly, Direct: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// has prepares a job with an image, and returns what ends it.
func has(t *testing.T, e *sandbox.Executor, image string) (done func()) {
	t.Helper()
	env, err := e.Prepare(t.Context(), &executor.Job{ID: "job", ProjectName: "project", Image: &containers.Image{Name: image, PullPolicies: []string{container.Never}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestImagesOfSandboxesWithoutAnEngineAreStored(t *testing.T) {
	alone(t)
	o := direct.Options{Saved: t.TempDir(), Cache: filepath.Join(t.TempDir(), "sandbox")}
	saveImages(t, o.Saved, "image1", "image2", "image3")
	e, other := unpacking(t, o, usage.New(t.TempDir())), unpacking(t, o, nil)
	storertest.Run(t, storertest.Case{
		Storer: e, Kind: executor.StoredImage,
		Use: func(number int) func() { return has(t, e, fmt.Sprintf("image%d", number)) },
		Foreign: func() (executor.Stored, func() bool) {
			has(t, other, "image3")()
			found, err := filepath.Glob(filepath.Join(o.Cache, "images", "*"))
			if err != nil || len(found) != 1 {
				t.Fatalf("%q, %v", found, err)
			}
			has(t, e, "image3")() // its jobs have it, too
			return executor.Stored{Kind: executor.StoredImage, Place: o.Cache, ID: "sha256:" + filepath.Base(found[0]), Name: "image3"}, func() bool {
				_, err := os.Stat(filepath.Join(found[0], "root"))
				return err == nil
			}
		},
	})
}

func TestAnImageThatAnotherProgramHasIsNotRemoved(t *testing.T) {
	alone(t)
	o := direct.Options{Saved: t.TempDir(), Cache: filepath.Join(t.TempDir(), "sandbox")}
	saveImages(t, o.Saved, "image")
	e, other := unpacking(t, o, usage.New(t.TempDir())), unpacking(t, o, nil)
	has(t, e, "image")()
	done := has(t, other, "image")
	stock, err := e.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 || !stock.Things[0].InUse || stock.Things[0].Folder != o.Cache {
		t.Fatalf("%+v, %v", stock, err)
	}
	if err := e.Discard(t.Context(), stock.Things[0]); !errors.Is(err, usage.ErrInUse) {
		t.Errorf("it is removed: %v", err)
	}
	done()
	if err := e.Discard(t.Context(), stock.Things[0]); err != nil {
		t.Error(err)
	}
	has(t, other, "image")() // it is unpacked again
}
