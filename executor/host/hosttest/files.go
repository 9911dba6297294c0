package hosttest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/executor/host"
)

func testPut(t *testing.T, h host.Host) {
	write := func(t *testing.T, text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "a program")
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Run("a program can be run on the host", func(t *testing.T) {
		for _, says := range []string{"one", "two"} {
			path, err := h.Put(t.Context(), write(t, "#!/bin/sh\necho "+says+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if r := run(t, h, &host.Command{Args: []string{path}}); r.stdout != says+"\n" || r.err != nil {
				t.Errorf("%s prints %q, %v", path, r.stdout, r.err)
			}
			if !h.Path().IsAbs(path) {
				t.Errorf("%s is not absolute", path)
			}
		}
	})
	t.Run("the same program is put once, also by several at a time", func(t *testing.T) {
		file := write(t, "#!/bin/sh\necho several\n")
		paths := make([]string, 5)
		var all sync.WaitGroup
		for i := range paths {
			all.Go(func() {
				path, err := h.Put(t.Context(), file)
				if err != nil {
					t.Error(err)
				}
				paths[i] = path
			})
		}
		all.Wait()
		for _, path := range paths {
			if path != paths[0] {
				t.Errorf("it is at %s and at %s", paths[0], path)
			}
		}
		before, err := os.Stat(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Put(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(paths[0]); err != nil || !os.SameFile(before, after) {
			t.Errorf("it was sent again: %v", err)
		}
	})
	t.Run("what is not a file", func(t *testing.T) {
		if path, err := h.Put(t.Context(), t.TempDir()); err == nil {
			t.Errorf("a folder is at %s", path)
		}
		if _, err := h.Put(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

// must ends the test with the first errors.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func testFiles(t *testing.T, h host.Host) {
	files := h.Files()
	ctx := t.Context()
	t.Run("the folder for temporary files", func(t *testing.T) {
		path, err := files.Temp(ctx)
		if info, statErr := os.Stat(path); err != nil || statErr != nil || !info.IsDir() || !h.Path().IsAbs(path) {
			t.Errorf("%q, %v, %v", path, err, statErr)
		}
	})
	t.Run("Mkdir", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "it's a\nfolder")
		must(t, files.Mkdir(ctx, dir, 0o777))
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
			t.Error(info.Mode(), err)
		}
		if err := files.Mkdir(ctx, dir, 0o700); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "a\nfolder") {
			t.Error(err)
		}
		if err := files.Mkdir(ctx, filepath.Join(dir, "none", "deep"), 0o700); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		must(t, files.MkdirAll(ctx, filepath.Join(dir, "some", "deep"), 0o700), files.MkdirAll(ctx, filepath.Join(dir, "some", "deep"), 0o700))
	})
	t.Run("Stat", func(t *testing.T) {
		dir := t.TempDir()
		file, link, sub := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "-sub")
		when := time.Unix(1e9, 0)
		must(t, os.WriteFile(file, []byte("12345"), 0o640), os.Chmod(file, 0o640), os.Chtimes(file, when, when), os.Symlink("nowhere", link), os.Mkdir(sub, 0o755))
		if info, err := files.Stat(ctx, file); err != nil || info.Mode != 0o640 || info.Size != 5 || !info.ModTime.Equal(when) {
			t.Errorf("%+v, %v", info, err)
		}
		if info, err := files.Stat(ctx, link); err != nil || info.Mode.Type() != fs.ModeSymlink {
			t.Errorf("%+v, %v", info, err)
		}
		for path, empty := range map[string]bool{sub: true, dir: false} {
			if info, err := files.Stat(ctx, path); err != nil || !info.Mode.IsDir() || info.Empty != empty {
				t.Errorf("%s: %+v, %v", path, info, err)
			}
		}
		if _, err := files.Stat(ctx, filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("Link", func(t *testing.T) {
		dir := t.TempDir()
		program, path := filepath.Join(dir, "program"), filepath.Join(dir, "other")
		must(t, os.WriteFile(program, []byte("#!/bin/sh\necho linked\n"), 0o755), files.Link(ctx, program, path))
		if r := run(t, h, &host.Command{Args: []string{path}}); r.stdout != "linked\n" {
			t.Errorf("%q, %v", r.stdout, r.err)
		}
		if err := files.Link(ctx, program, path); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	})
	t.Run("RemoveAll removes read-only trees and follows no links", func(t *testing.T) {
		dir, other := filepath.Join(t.TempDir(), "dir"), t.TempDir()
		locked := filepath.Join(dir, "locked", "deep")
		kept := filepath.Join(other, "kept")
		must(t, os.MkdirAll(locked, 0o755), os.WriteFile(filepath.Join(locked, "file"), nil, 0o400), os.WriteFile(kept, nil, 0o600), os.Symlink(other, filepath.Join(dir, "link")),
			os.Chmod(locked, 0o500), os.Chmod(filepath.Dir(locked), 0o500), files.RemoveAll(ctx, dir), files.RemoveAll(ctx, dir))
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	})
	testArchives(t, files)
	t.Run("relative paths are refused", func(t *testing.T) {
		for _, err := range []error{files.Mkdir(ctx, "x", 0o700), files.RemoveAll(ctx, "x"), files.Unpack(ctx, "x", strings.NewReader("")), files.Pack(ctx, "x", io.Discard)} {
			if err == nil || !strings.Contains(err.Error(), "not an absolute path") {
				t.Error(err)
			}
		}
	})
}

func testArchives(t *testing.T, files host.Files) {
	ctx := t.Context()
	t.Run("archives go there and back", func(t *testing.T) {
		from, to := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "not", "there")
		must(t, os.MkdirAll(filepath.Join(from, "a", "empty"), 0o755), os.WriteFile(filepath.Join(from, "a", "new\nline"), bytes.Repeat([]byte("x"), 1<<20), 0o751), os.Symlink("a", filepath.Join(from, "link")))
		var out, back bytes.Buffer
		must(t, files.Pack(ctx, from, &out))
		text := append([]byte(nil), out.Bytes()...)
		must(t, files.Unpack(ctx, to, &out), files.Pack(ctx, filepath.Join(to, "tree"), &back))
		if diff := cmp.Diff(names(t, text), names(t, back.Bytes())); diff != "" {
			t.Errorf("(-sent +received):\n%s", diff)
		}
		if want := []string{"tree/", "tree/a/", "tree/a/empty/", "tree/a/new\nline", "tree/link"}; !cmp.Equal(names(t, text), want) {
			t.Errorf("the archive holds %q", names(t, text))
		}
	})
	t.Run("an archive that leaves its folder is refused", func(t *testing.T) {
		var text bytes.Buffer
		w := tar.NewWriter(&text)
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "../victim"}), w.Close())
		dir := t.TempDir()
		var unsafe *archive.UnsafeError
		if err := files.Unpack(ctx, filepath.Join(dir, "in"), &text); !errors.As(err, &unsafe) || unsafe.Entry != "../victim" {
			t.Error(err)
		}
	})
	t.Run("what does not exist cannot be packed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none")
		if err := files.Pack(ctx, path, io.Discard); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none") {
			t.Error(err)
		}
	})
	t.Run("a full disk is named", func(t *testing.T) {
		var text bytes.Buffer
		w := tar.NewWriter(&text)
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 1 << 20, Mode: 0o644}))
		_, err := w.Write(make([]byte, 1<<20))
		must(t, err, w.Close())
		disk := SmallDisk(t)
		if err := files.Unpack(ctx, filepath.Join(disk, "in"), &text); !errors.Is(err, host.ErrNoSpace) || !strings.Contains(err.Error(), "big") {
			t.Error(err)
		}
	})
}

// names are the names of an archive's entries.
func names(t testing.TB, text []byte) (out []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, header.Name)
	}
}
