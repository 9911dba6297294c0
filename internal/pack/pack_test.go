package pack

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

// modified is when all files of the tests were changed; zip archives count in steps of two seconds at worst.
var modified = time.Date(2026, 3, 4, 5, 6, 8, 0, time.UTC)

// tree makes a folder of files. A name that ends in a slash is a folder, and content that begins with "-> " makes a symbolic link.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		to, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case isLink:
			if err = os.Symlink(to, path); err != nil && runtime.GOOS == "windows" {
				t.Skip("needs the right to make symbolic links")
			}
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			if err = os.WriteFile(path, []byte(content), 0o644); err == nil {
				err = os.Chtimes(path, modified, modified)
			}
		}
		if err != nil {
			t.Skipf("needs a file system that can hold the name %q: %v", name, err)
		}
	}
	return dir
}

func text(size int) string {
	r := rand.New(rand.NewPCG(uint64(size), 7))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "line %d of a text\n", r.IntN(1000))
	}
	return b.String()[:size]
}

func noise(size int) string {
	r := rand.New(rand.NewPCG(uint64(size), 9))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// list shows a folder: what each name is, its permissions, and its content or how long that is.
func list(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		say := info.Mode().String()
		if runtime.GOOS == "windows" {
			say = info.Mode().Type().String()
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			say = "-> " + filepath.ToSlash(to)
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			say += fmt.Sprintf(" %08x %d %s", crc32.ChecksumIEEE(content), len(content), info.ModTime().UTC().Format(time.DateTime))
		}
		all[filepath.ToSlash(name)] = say
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names(t testing.TB, dir string) []string {
	var all []string
	for name := range list(t, dir) {
		all = append(all, name)
	}
	return all
}

type packer func(ctx context.Context, w io.Writer, dir string, names []string, o Options) (*Summary, error)

var packers = map[string]packer{"zip": Zip, "zip with zstd": ZipZstd, "tar.zst": TarZstd}

func extract(t testing.TB, archive []byte, o ExtractOptions) (string, *Summary, error) {
	t.Helper()
	dir := t.TempDir()
	s, err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), dir, o)
	return dir, s, err
}

func mixed(t testing.TB) string {
	t.Helper()
	dir := tree(t, map[string]string{
		"a.txt": "hello", "empty": "", "sub/deep/text": text(300_000), "big.txt": text(2<<20 + 123), "exact": text(1 << 20), "noise": noise(1<<20 + 1),
		"small-noise": noise(1000), "folder/": "", "link": "-> sub/deep/text", "dead": "-> nowhere", "日本/語.txt": "x", "run.sh": "#!/bin/sh\n",
	})
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "a.txt": 0o600, "folder": 0o750} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryFormatKeepsATree(t *testing.T) {
	t.Parallel()
	large, small := mixed(t), tree(t, map[string]string{"a.txt": "hello", "empty": "", "sub/text": text(300_000), "noise": noise(1000)})
	for format, pack := range packers {
		for level := range Level(len(levelNames)) {
			t.Run(fmt.Sprintf("%s, %v", format, level), func(t *testing.T) {
				t.Parallel()
				dir := large
				if level == LevelSlowest {
					dir = small
				}
				want := list(t, dir)
				if level != LevelDefault && testing.Short() {
					t.Skip("the default level will do")
				}
				var one, many bytes.Buffer
				s, err := pack(context.Background(), &one, dir, names(t, dir), Options{Level: level, Workers: 1})
				if err != nil {
					t.Fatal(err)
				}
				if s.Entries != len(want) || len(s.Warnings) > 0 {
					t.Errorf("got %+v", s)
				}
				if _, err := pack(context.Background(), &many, dir, append(names(t, dir), "./a.txt"), Options{Level: level, Workers: 5}); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(one.Bytes(), many.Bytes()) {
					t.Error("the archive depends on the number of workers")
				}
				to, got, err := extract(t, one.Bytes(), ExtractOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, list(t, to)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if got.Bytes != s.Bytes || got.Entries != s.Entries {
					t.Errorf("packed %+v, unpacked %+v", s, got)
				}
			})
		}
	}
}

func TestZip(t *testing.T) {
	t.Parallel()
	t.Run("case 70: file, link, folders, pipe and missing file", func(t *testing.T) {
		t.Parallel()
		dir := tree(t, map[string]string{
			"test_file.txt": "content", "new_symlink": "-> old_symlink", "test_dir/": "", "テスト_dir/": "", "テスト.txt": "x", "empty.txt": "",
		})
		if err := os.Chmod(filepath.Join(dir, "test_file.txt"), 0o750); err != nil {
			t.Fatal(err)
		}
		list := append(names(t, dir), "non_existing_file.txt")
		wanted := []Warning{{Reason: Missing, Name: "non_existing_file.txt"}}
		if mkfifo, err := exec.LookPath("mkfifo"); err == nil {
			if err := exec.Command(mkfifo, filepath.Join(dir, "pipe")).Run(); err != nil {
				t.Fatal(err)
			}
			list = append(list, "pipe")
			wanted = append(wanted, Warning{Reason: Special, Name: "pipe"})
		}
		var archive bytes.Buffer
		s, err := Zip(context.Background(), &archive, dir, list, Options{Owners: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, s.Warnings, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Mode" }, cmp.Ignore())); diff != "" {
			t.Error(diff)
		}
		for _, w := range s.Warnings {
			if !strings.Contains(w.String(), w.Name) {
				t.Errorf("the warning %q does not name the file", w)
			}
		}
		z, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if len(z.File) != 6 || s.Entries != 6 {
			t.Errorf("got %d entries, and a summary of %d", len(z.File), s.Entries)
		}
		for _, f := range z.File {
			ascii := !strings.Contains(f.Name, "テスト")
			if utf8Flag := f.Flags&flagUTF8 != 0; utf8Flag == ascii {
				t.Errorf("%s: the flag for UTF-8 is %t", f.Name, utf8Flag)
			}
			switch f.Name {
			case "new_symlink":
				r, _ := f.Open()
				if to, _ := io.ReadAll(r); f.Mode()&fs.ModeSymlink == 0 || string(to) != "old_symlink" {
					t.Errorf("the link became %v to %q", f.Mode(), to)
				}
			case "test_file.txt":
				if runtime.GOOS != "windows" && f.Mode() != 0o750 {
					t.Errorf("the file became %v", f.Mode())
				}
				if !f.Modified.Equal(modified) {
					t.Errorf("the file is of %v", f.Modified)
				}
				if uid := []byte{'u', 'x', 11, 0}; runtime.GOOS != "windows" && !bytes.Contains(f.Extra, uid) {
					t.Error("there is no owner")
				}
			case "test_dir/", "テスト_dir/":
				if !f.Mode().IsDir() {
					t.Errorf("the folder became %v", f.Mode())
				}
			}
		}
	})
	t.Run("names that are bytes stay what they are", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
			t.Skip("needs a file system whose names are bytes")
		}
		dir := tree(t, map[string]string{"\xff\xfe": "1", "new\nline": "2", "back\\slash": "3"})
		for format, pack := range packers {
			var archive bytes.Buffer
			if _, err := pack(context.Background(), &archive, dir, names(t, dir), Options{}); err != nil {
				t.Fatal(err)
			}
			to, _, err := extract(t, archive.Bytes(), ExtractOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(list(t, dir), list(t, to)); diff != "" {
				t.Errorf("%s: %s", format, diff)
			}
		}
	})
	t.Run("other programs can read it", func(t *testing.T) {
		t.Parallel()
		unzip, err := exec.LookPath("unzip")
		if err != nil {
			t.Skip("needs unzip: it is the other program")
		}
		dir := mixed(t)
		file := filepath.Join(t.TempDir(), "a.zip")
		var archive bytes.Buffer
		if _, err := Zip(context.Background(), &archive, dir, names(t, dir), Options{Owners: true}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(unzip, "-tq", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func TestPackingErrors(t *testing.T) {
	t.Parallel()
	for format, pack := range packers {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, map[string]string{"a": text(3 << 20), "b": text(3 << 20)})
			for _, name := range []string{"../x", "/etc/passwd", "a/../../x", ""} {
				if _, err := pack(context.Background(), io.Discard, dir, []string{name}, Options{}); err == nil {
					t.Errorf("%q was packed", name)
				}
			}
			full := errors.New("no space left")
			if _, err := pack(context.Background(), failing{full}, dir, []string{"a", "b"}, Options{}); !errors.Is(err, full) {
				t.Errorf("got %v, not that writing failed", err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := pack(ctx, io.Discard, dir, []string{"a", "b"}, Options{}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if os.Getuid() > 0 {
				if err := os.Chmod(filepath.Join(dir, "b"), 0); err != nil {
					t.Fatal(err)
				}
				if _, err := pack(context.Background(), io.Discard, dir, []string{"a", "b"}, Options{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), `"b"`) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	t.Run("nothing behind a link that leads out", func(t *testing.T) {
		t.Parallel()
		dir := tree(t, map[string]string{"out": "-> " + t.TempDir()})
		if err := os.WriteFile(filepath.Join(dir, "out", "secret"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Zip(context.Background(), io.Discard, dir, []string{"out/secret"}, Options{}); err == nil {
			t.Error("it was packed")
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestGzip(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a.xml": "first", "sub/b%.xml": "second", "sub/ü.xml": "third", "folder/": "", "link": "-> a.xml"})
	t.Run("case 72: folders and links are refused, what is missing is passed over", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"folder", "link"} {
			if _, err := Gzip(context.Background(), io.Discard, dir, []string{"a.xml", name}, Options{}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		s, err := Gzip(context.Background(), io.Discard, dir, []string{"a.xml", "missing"}, Options{})
		if err != nil || s.Entries != 1 || len(s.Warnings) != 1 || s.Warnings[0].Reason != Missing {
			t.Errorf("got %+v, %v", s, err)
		}
	})
	t.Run("case 73: names that a header cannot have are escaped", func(t *testing.T) {
		t.Parallel()
		var archive bytes.Buffer
		if _, err := Gzip(context.Background(), &archive, dir, []string{"a.xml", "sub/b%.xml", "sub/ü.xml"}, Options{}); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(&archive)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		for _, want := range [][3]string{
			{"a.xml", "a.xml", "first"}, {"e:b%25.xml", "e:sub%2Fb%25.xml", "second"}, {"e:%C3%BC.xml", "e:sub%2F%C3%BC.xml", "third"},
		} {
			content, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if got := [3]string{z.Name, z.Comment, string(content)}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if !z.ModTime.Equal(modified) {
				t.Errorf("it is of %v", z.ModTime)
			}
			if err := z.Reset(&archive); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			z.Multistream(false)
		}
	})
}

func TestRaw(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a": "one", "b": "two", "folder/": ""})
	t.Run("case 74: there must be exactly one file", func(t *testing.T) {
		t.Parallel()
		for _, names := range [][]string{{"a", "b"}, {}, {"missing"}, {"folder"}} {
			if _, err := Raw(context.Background(), io.Discard, dir, names); err == nil {
				t.Errorf("%q: no error", names)
			}
		}
		var out bytes.Buffer
		if s, err := Raw(context.Background(), &out, dir, []string{"a"}); err != nil || out.String() != "one" || s.Bytes != 3 {
			t.Errorf("got %q, %+v, %v", out.String(), s, err)
		}
	})
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, name := range levelNames {
		if l, err := ParseLevel(strings.ToUpper(name)); err != nil || l.String() != name {
			t.Errorf("%s: got %v, %v", name, l, err)
		}
	}
	if l, err := ParseLevel(""); err != nil || l != LevelDefault {
		t.Errorf("got %v, %v", l, err)
	}
	if _, err := ParseLevel("ultra"); err == nil {
		t.Error("no error for a level that is none")
	}
}

func FuzzCombineCRC(f *testing.F) {
	f.Add([]byte("a"), []byte("b"))
	f.Add([]byte{}, []byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		want := crc32.ChecksumIEEE(append(append([]byte{}, a...), b...))
		if got := combineCRC(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), int64(len(b))); got != want {
			t.Errorf("got %08x, want %08x", got, want)
		}
	})
}
