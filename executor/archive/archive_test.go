package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// makeTar makes an archive of headers, whose files hold their own names.
func makeTar(t testing.TB, headers ...*tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func file(name string) *tar.Header   { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }
func folder(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeDir, Name: name} }
func symlink(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hardlink(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}
func withMode(h *tar.Header, m int64) *tar.Header {
	h.Mode = m
	return h
}

// tree lists what is below a folder: names, and what links lead to.
func tree(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir():
			name += "/"
		case entry.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(path)
			name += " -> " + to
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestUnpack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links, which not every user of Windows may make")
	}
	for _, c := range []struct {
		name    string
		headers []*tar.Header
		want    []string
	}{
		{"makes the folders that entries are in", []*tar.Header{file("a/b/c")}, []string{"a/", "a/b/", "a/b/c"}},
		{"takes names that begin with a dot", []*tar.Header{folder("./"), file("./a")}, []string{"a"}},
		{"makes links that lead anywhere", []*tar.Header{symlink("l", "/etc/passwd"), symlink("m", "../..")}, []string{"l -> /etc/passwd", "m -> ../.."}},
		{"makes hard links", []*tar.Header{file("a"), hardlink("d/b", "a")}, []string{"a", "d/", "d/b"}},
		{"makes a hard link to a symbolic link another one", []*tar.Header{symlink("l", "x"), hardlink("m", "l")}, []string{"l -> x", "m -> x"}},
		{"leaves out what is not a file", []*tar.Header{{Typeflag: tar.TypeFifo, Name: "pipe"}, {Typeflag: tar.TypeChar, Name: "dev"}, file("a")}, []string{"a"}},
		{"fills folders that may not be written to", []*tar.Header{withMode(folder("d"), 0o555), file("d/a")}, []string{"d/", "d/a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "not", "there")
			if err := Unpack(t.Context(), makeTar(t, c.headers...), dir); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, tree(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			_ = os.Chmod(filepath.Join(dir, "d"), 0o755)
		})
	}
}

func TestUnpackNeverLeavesItsFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links, which not every user of Windows may make")
	}
	for _, c := range []struct {
		name    string
		headers []*tar.Header
	}{
		{"by a name with ..", []*tar.Header{file("../victim")}},
		{"by a name with .. in the middle", []*tar.Header{file("a/../../victim")}},
		{"by a hard link", []*tar.Header{hardlink("a", "../victim"), file("a")}},
		{"by a link of its own", []*tar.Header{symlink("l", ".."), file("l/victim")}},
		{"by a planted link", []*tar.Header{file("planted/victim")}},
		{"by a folder in the place of a planted link", []*tar.Header{folder("planted"), file("planted/victim")}},
		{"by a planted link further up", []*tar.Header{file("planted/deep/victim")}},
		{"by a planted link to a file", []*tar.Header{file("to-victim")}},
		{"by a hard link through a planted link", []*tar.Header{hardlink("a", "planted/victim"), withMode(file("a"), 0o600)}},
		{"by replacing the folder itself", []*tar.Header{symlink(".", "..")}},
		{"by a file in place of the folder itself", []*tar.Header{file(".")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := t.TempDir()
			victim, dir := filepath.Join(outer, "victim"), filepath.Join(outer, "dir")
			deep := filepath.Join(outer, "deep")
			if err := errors.Join(os.WriteFile(victim, []byte("untouched"), 0o640), os.Mkdir(dir, 0o755), os.Mkdir(deep, 0o755),
				os.Symlink("..", filepath.Join(dir, "planted")), os.Symlink(victim, filepath.Join(dir, "to-victim"))); err != nil {
				t.Fatal(err)
			}
			_ = Unpack(t.Context(), makeTar(t, c.headers...), dir) // refused, or put elsewhere
			content, err := os.ReadFile(victim)
			info, _ := os.Stat(victim)
			if err != nil || string(content) != "untouched" || info.Mode().Perm() != 0o640 || len(tree(t, deep)) != 0 {
				t.Errorf("the file outside holds %q, %v, %v", content, info.Mode(), err)
			}
		})
	}
	t.Run("nor holds entries that contradict each other", func(t *testing.T) {
		for _, headers := range [][]*tar.Header{{file("a"), folder("a")}, {file("a"), file("a")}, {file("c/d"), file("c")}, {symlink("l", "."), file("l/x")}} {
			var unsafe *UnsafeError
			if err := Unpack(t.Context(), makeTar(t, headers...), t.TempDir()); !errors.As(err, &unsafe) {
				t.Errorf("%v: %v", headers[1].Name, err)
			}
		}
	})
	t.Run("and says so", func(t *testing.T) {
		var unsafe *UnsafeError
		if err := Unpack(t.Context(), makeTar(t, file("/etc/x")), t.TempDir()); !errors.As(err, &unsafe) || unsafe.Entry != "/etc/x" {
			t.Error(err)
		}
	})
}

func TestUnpackReplacesWhatIsThere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links, which not every user of Windows may make")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "full", "of"), 0o755), os.WriteFile(filepath.Join(dir, "full", "of", "things"), nil, 0o600),
		os.Symlink(elsewhere, filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), makeTar(t, file("full"), file("link/a"), file("file/b"), symlink("l", "x")), dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"file/", "file/b", "full", "l -> x", "link/", "link/a"}, tree(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if names := tree(t, elsewhere); len(names) != 0 {
		t.Errorf("it wrote through a link: %q", names)
	}
}

func TestUnpackLeavesNoHalfFiles(t *testing.T) {
	whole := makeTar(t, file("first"), file(strings.Repeat("x", 90)))
	for _, length := range []int{100, 514, 1100, 1600} { // in a header, a file, a header, a file
		dir := t.TempDir()
		if err := Unpack(t.Context(), bytes.NewReader(whole.Bytes()[:length]), dir); err == nil {
			t.Errorf("%d bytes of an archive are fine", length)
		}
		for _, name := range tree(t, dir) {
			if content, _ := os.ReadFile(filepath.Join(dir, name)); string(content) != name {
				t.Errorf("after %d bytes %s holds %q", length, name, content)
			}
		}
	}
}

func TestPackAndUnpackKeepModesAndTimes(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), t.TempDir()
	when := time.Date(2024, 2, 29, 1, 2, 3, 0, time.UTC)
	if err := errors.Join(os.MkdirAll(filepath.Join(from, "d"), 0o755), os.WriteFile(filepath.Join(from, "d", "f"), []byte("x"), 0o751),
		os.Chtimes(filepath.Join(from, "d", "f"), when, when), os.Chtimes(filepath.Join(from, "d"), when, when)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Pack(t.Context(), &out, from); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), &out, to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"from/d", "from/d/f"} {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		if !info.ModTime().Equal(when) {
			t.Errorf("%s is of %s", name, info.ModTime())
		}
		if runtime.GOOS != "windows" && !info.IsDir() && info.Mode().Perm() != 0o751 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
}

func TestPackOfWhatIsNotThere(t *testing.T) {
	if err := Pack(t.Context(), io.Discard, filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestBothEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pack(ctx, io.Discard, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := Unpack(ctx, makeTar(t, file("a")), t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(makeTar(f, file("a/b"), symlink("l", ".."), file("l/x"), hardlink("h", "a/b"), folder("a")).Bytes())
	f.Add(makeTar(f, folder("."), symlink("a", "b"), hardlink("a", "a"), file("a/../../b")).Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		_ = Unpack(t.Context(), bytes.NewReader(data), filepath.Join(outer, "dir"))
		if entries, _ := os.ReadDir(outer); len(entries) > 1 {
			t.Errorf("it wrote beside its folder: %v", entries)
		}
	})
}
