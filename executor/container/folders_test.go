package container_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/usage"
)

// inFolders is a level whose kept volumes are in a folder of this machine.
func inFolders(t *testing.T) (e *container.Executor, base string) {
	t.Helper()
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	enginetest.Busybox(t)
	dir, base := t.TempDir(), t.TempDir()
	o := options(dir)
	o.Uses = usage.New(dir)
	o.Volumes.Kept, o.Volumes.Folder = []string{"/kept"}, base
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, base
}

// haveFolder prepares a job that has a file in a kept folder, and returns what ends it.
func haveFolder(t *testing.T, e *container.Executor, name string) (done func()) {
	t.Helper()
	j := job("folders")
	j.KeepVolumes = name
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, enginetest.Client(t), env.Layout().Name)
	return func() {
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestStoredFolders(t *testing.T) {
	e, base := inFolders(t)
	storertest.Run(t, storertest.Case{
		Storer: e, Kind: executor.StoredVolume,
		Use: func(number int) func() { return haveFolder(t, e, fmt.Sprintf("stored-%d", number)) },
		Foreign: func() (executor.Stored, func() bool) {
			folder := filepath.Join(base, "theirs", "rung-volume-theirs")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			return executor.Stored{Kind: executor.StoredVolume, Place: "this machine", ID: folder}, func() bool {
				_, err := os.Stat(folder)
				return err == nil
			}
		},
	})
}

// storedFolder is the one folder that a job has left.
func storedFolder(t *testing.T, e *container.Executor, base string) executor.Stored {
	t.Helper()
	haveFolder(t, e, "one")()
	stock, err := e.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 {
		t.Fatalf("%+v %v", stock, err)
	}
	it := stock.Things[0]
	if it.InUse || it.Size < 64<<10 || it.Folder != base || filepath.Dir(it.ID) != filepath.Join(base, "one") {
		t.Fatalf("%+v", it)
	}
	return it
}

func TestALinkInAKeptFolderOrInItsPlaceLeadsNowhere(t *testing.T) {
	const theirs = "rung-volume-of-somebody"
	for name, plant := range map[string]func(folder, outside string) error{
		"in it": func(folder, outside string) error { return os.Symlink(outside, filepath.Join(folder, "link")) },
		"in its place": func(folder, outside string) error {
			return errors.Join(os.RemoveAll(folder), os.Symlink(filepath.Join(outside, theirs), folder))
		},
		"in that around it": func(folder, outside string) error {
			parent := filepath.Dir(folder)
			return errors.Join(os.RemoveAll(parent), os.Symlink(outside, parent), os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, base := inFolders(t)
			it, outside := storedFolder(t, e, base), t.TempDir()
			file := filepath.Join(outside, theirs, "file")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600), plant(it.ID, outside)); err != nil {
				t.Fatal(err)
			}
			if err := e.Discard(t.Context(), it); err != nil {
				t.Error(err)
			}
			files, _ := filepath.Glob(filepath.Join(outside, "*", "file"))
			if want := map[bool]int{true: 2, false: 1}[name == "in that around it"]; len(files) != want {
				t.Errorf("of what the link leads to, %q are left", files)
			}
			if left, _ := os.ReadDir(base); name == "in it" && len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if stock, err := e.Stored(t.Context()); err != nil || len(stock.Things) > 0 {
				t.Errorf("%+v %v", stock, err)
			}
		})
	}
}

func TestAKeptFolderOfAContainerThatAPersonMadeStays(t *testing.T) {
	e, base := inFolders(t)
	it := storedFolder(t, e, base)
	c := enginetest.Client(t)
	made, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Image: enginetest.Busybox(t), Config: &dockercontainer.Config{Cmd: []string{"sh"}}, HostConfig: &dockercontainer.HostConfig{Binds: []string{it.ID + ":/theirs"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true})
	})
	stock, err := e.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 || !stock.Things[0].InUse {
		t.Errorf("%+v %v", stock, err)
	}
	if err := e.Discard(t.Context(), it); !errors.Is(err, usage.ErrInUse) {
		t.Errorf("removing it gives %v", err)
	}
	if files, _ := os.ReadDir(it.ID); len(files) == 0 {
		t.Error("it is removed")
	}
}
