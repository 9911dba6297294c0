package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// entry is one of an archive that a test makes by hand. Content that begins with "-> " makes a symbolic link, and with "=> " a hard one.
type entry struct{ name, content string }

type builder func(t testing.TB, entries []entry) []byte

var builders = map[string]builder{"zip": buildZip, "tar.zst": buildTarZstd, "tar.gz": buildTarGzip}

func buildZip(t testing.TB, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o644)
		content := e.content
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			h.SetMode(fs.ModeSymlink | 0o777)
			content = to
		}
		if strings.HasSuffix(e.name, "/") {
			h.SetMode(fs.ModeDir | 0o755)
		}
		w, err := z.CreateHeader(h)
		if err == nil && content != "" {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func buildTar(t testing.TB, w io.Writer, entries []entry) {
	t.Helper()
	z := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(e.content))}
		if to, ok := strings.CutPrefix(e.content, "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		}
		if to, ok := strings.CutPrefix(e.content, "=> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, to, 0
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := z.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(z, e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

func buildTarGzip(t testing.TB, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	buildTar(t, z, entries)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func buildTarZstd(t testing.TB, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	buildTar(t, z, entries)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// everywhere runs a test with every format.
func everywhere(t *testing.T, test func(t *testing.T, build builder)) {
	t.Helper()
	for format, build := range builders {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			test(t, build)
		})
	}
}

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		entries []entry
		says    string
	}{
		{"a name that leads out", []entry{{"../out", "x"}}, `".."`},
		{"a name that leads out further down", []entry{{"a/../../out", "x"}}, `".."`},
		{"a whole path", []entry{{"/tmp/out", "x"}}, "absolute path"},
		{"a file behind a planted link", []entry{{"l", "-> .."}, {"l/out", "x"}}, "behind the symbolic link"},
		{"a file behind a planted link that comes later", []entry{{"l/out", "x"}, {"l", "-> .."}}, "must be a folder"},
		{"a folder behind a planted link", []entry{{"l", "-> .."}, {"l/d/", ""}}, "behind the symbolic link"},
		{"a file in a file", []entry{{"f", "x"}, {"f/g", "x"}}, "is a file"},
		{"a name that stands twice", []entry{{"f", "x"}, {"./f", "y"}}, "twice"},
		{"a link in place of a file", []entry{{"f", "x"}, {"f", "-> .."}}, "twice"},
		{"a file in place of the folder itself", []entry{{".", "x"}}, "folder that is unpacked into"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, build builder) {
				outer := t.TempDir()
				dir := filepath.Join(outer, "in")
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				archive := build(t, append([]entry{{"first", "x"}}, test.entries...))
				_, err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{})
				var unsafe *UnsafeError
				if !errors.As(err, &unsafe) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v", err)
				}
				if entries, _ := os.ReadDir(outer); len(entries) != 1 {
					t.Errorf("something was written outside: %v", entries)
				}
				if entries, _ := os.ReadDir(dir); archive[0] == 'P' && len(entries) > 0 {
					t.Errorf("something of a zip archive was written: %v", entries)
				}
			})
		})
	}
}

func TestExtractAndWhatIsThere(t *testing.T) {
	t.Parallel()
	t.Run("case 71: permissions are not set through a link", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("needs permissions")
		}
		everywhere(t, func(t *testing.T, build builder) {
			outside := filepath.Join(t.TempDir(), "precious")
			if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir, _, err := extract(t, build(t, []entry{{"file", "x"}, {"link", "-> " + outside}, {"dir/", ""}}), ExtractOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != outside {
				t.Errorf("got %q, %v", to, err)
			}
			info, err := os.Stat(outside)
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("what the link leads to became %v, %v", info.Mode(), err)
			}
			if content, _ := os.ReadFile(outside); string(content) != "kept" {
				t.Errorf("it became %q", content)
			}
		})
	})
	t.Run("a file replaces a link that was there, and not what that leads to", func(t *testing.T) {
		t.Parallel()
		everywhere(t, func(t *testing.T, build builder) {
			dir := tree(t, map[string]string{"precious": "kept", "file": "-> precious", "l": "old"})
			archive := build(t, []entry{{"file", "new"}, {"l", "-> precious"}})
			if _, err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{}); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"precious": "kept", "file": "new", "l": "kept"} {
				if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
					t.Errorf("%s: got %q, %v", name, content, err)
				}
			}
		})
	})
	t.Run("a file replaces one that has another name, too, and leaves that alone", func(t *testing.T) {
		t.Parallel()
		everywhere(t, func(t *testing.T, build builder) {
			dir := tree(t, map[string]string{"precious": "kept"})
			if err := os.Link(filepath.Join(dir, "precious"), filepath.Join(dir, "file")); err != nil {
				t.Skipf("needs hard links: %v", err)
			}
			archive := build(t, []entry{{"file", "new"}})
			if _, err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{}); err != nil {
				t.Fatal(err)
			}
			if content, _ := os.ReadFile(filepath.Join(dir, "precious")); string(content) != "kept" {
				t.Errorf("got %q", content)
			}
		})
	})
	t.Run("nothing is written behind a link that was there", func(t *testing.T) {
		t.Parallel()
		everywhere(t, func(t *testing.T, build builder) {
			outside := t.TempDir()
			for _, to := range []string{outside, "real"} {
				dir := tree(t, map[string]string{"real/": "", "l": "-> " + to})
				archive := build(t, []entry{{"l/file", "x"}})
				_, err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{})
				var unsafe *UnsafeError
				if !errors.As(err, &unsafe) || !strings.Contains(err.Error(), "symbolic link") {
					t.Errorf("got %v", err)
				}
			}
			if entries, _ := os.ReadDir(outside); len(entries) > 0 {
				t.Error("something was written outside")
			}
		})
	})
	t.Run("a folder with files is not replaced by a file", func(t *testing.T) {
		t.Parallel()
		everywhere(t, func(t *testing.T, build builder) {
			dir := tree(t, map[string]string{"f/kept": "x"})
			for _, content := range []string{"x", "-> elsewhere"} {
				archive := build(t, []entry{{"f", content}})
				if _, err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{}); err == nil {
					t.Error("no error")
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "f", "kept")); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("folders that forbid writing are filled all the same", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("needs permissions")
		}
		dir := tree(t, map[string]string{"d/e/f": "x"})
		want := list(t, dir)
		for _, d := range []string{"d/e", "d"} {
			path := filepath.Join(dir, d)
			if err := os.Chmod(path, 0o555); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(path, 0o755) })
		}
		for format, pack := range packers {
			var archive bytes.Buffer
			if _, err := pack(context.Background(), &archive, dir, []string{"d", "d/e", "d/e/f"}, Options{}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time onto the first
				to, _, err := extract(t, archive.Bytes(), ExtractOptions{})
				if err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				got := list(t, to)
				if got["d"] != "dr-xr-xr-x" || got["d/e/f"] != want["d/e/f"] {
					t.Errorf("%s: got %v", format, got)
				}
				for _, d := range []string{"d", "d/e"} {
					_ = os.Chmod(filepath.Join(to, d), 0o755)
				}
			}
		}
	})
}

func TestExtractHardLinks(t *testing.T) {
	t.Parallel()
	dir, _, err := extract(t, buildTarGzip(t, []entry{{"a", "text"}, {"sub/b", "=> a"}}), ExtractOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "sub", "b")); err != nil || string(content) != "text" {
		t.Errorf("got %q, %v", content, err)
	}
	for _, entries := range [][]entry{{{"b", "=> a"}}, {{"b", "=> ../a"}}, {{"l", "-> /etc/passwd"}, {"b", "=> l"}}, {{"b", "=> /etc/passwd"}}} {
		var unsafe *UnsafeError
		if _, _, err := extract(t, buildTarGzip(t, entries), ExtractOptions{}); !errors.As(err, &unsafe) {
			t.Errorf("%v: got %v", entries, err)
		}
	}
}

func TestExtractLimits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, build builder) {
		archive := build(t, []entry{{"a", strings.Repeat("0", 10<<20)}, {"b", "x"}})
		for what, o := range map[string]ExtractOptions{"bytes": {MaxBytes: 1 << 20}, "entries": {MaxEntries: 1}} {
			dir, _, err := extract(t, archive, o)
			var limit *LimitError
			if !errors.As(err, &limit) || limit.What != what {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
				t.Error("it went on")
			}
		}
		if _, _, err := extract(t, archive, ExtractOptions{MaxBytes: 10<<20 + 1, MaxEntries: 2}); err != nil {
			t.Errorf("the limit itself is refused: %v", err)
		}
	})
	t.Run("a zip whose header lies about the size", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		var packed bytes.Buffer
		d, _ := newDeflater(LevelDefault)
		if err := d.piece(&packed, make([]byte, 1<<20), true); err != nil {
			t.Fatal(err)
		}
		w, err := z.CreateRaw(&zip.FileHeader{Name: "bomb", Method: zip.Deflate, UncompressedSize64: 10, CompressedSize64: uint64(packed.Len())})
		if err == nil {
			_, err = w.Write(packed.Bytes())
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		dir, _, err := extract(t, out.Bytes(), ExtractOptions{})
		var format *FormatError
		if !errors.As(err, &format) {
			t.Errorf("got %v", err)
		}
		if len(list(t, dir)) > 0 {
			t.Error("part of it is there")
		}
	})
}

// TestExtractCutShort cuts archives everywhere: there is an error, and every file that is there is whole.
func TestExtractCutShort(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a": text(700_000), "b": noise(40_000), "c": "short", "d/e": strings.Repeat("\x00", 5000)})
	archives := map[string][]byte{"made by hand": buildTarGzip(t, []entry{{"c", "short"}, {"zeros", strings.Repeat("\x00", 2048)}})}
	want := list(t, dir)
	for format, pack := range packers {
		var out bytes.Buffer
		if _, err := pack(context.Background(), &out, dir, names(t, dir), Options{}); err != nil {
			t.Fatal(err)
		}
		archives[format] = out.Bytes()
	}
	for format, archive := range archives {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			cuts := []int{0, 1, 3, 4, 30, len(archive) / 4, len(archive) / 2, len(archive) - 30, len(archive) - 1}
			for i := 1; i < 12; i++ {
				cuts = append(cuts, len(archive)*i/12)
			}
			for _, cut := range cuts {
				to, _, err := extract(t, archive[:cut], ExtractOptions{})
				var damaged *FormatError
				if !errors.As(err, &damaged) {
					t.Errorf("cut after %d of %d bytes: got %v", cut, len(archive), err)
				}
				for name, is := range list(t, to) {
					if format != "made by hand" && !strings.HasPrefix(is, "d") && is != want[name] {
						t.Errorf("cut after %d: %s is half made: %s", cut, name, is)
					}
				}
			}
		})
	}
	t.Run("between two frames", func(t *testing.T) {
		t.Parallel()
		var plain bytes.Buffer
		buildTar(t, &plain, []entry{{"a", strings.Repeat("a", 512)}, {"zeros", strings.Repeat("\x00", 1024)}})
		enc, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		whole := plain.Bytes()
		for _, at := range []int{1024, len(whole) - 1024} {
			var damaged *FormatError
			if _, _, err := extract(t, enc.EncodeAll(whole[:at], nil), ExtractOptions{}); !errors.As(err, &damaged) {
				t.Errorf("cut after %d of %d bytes: got %v", at, len(whole), err)
			}
		}
		archive := enc.EncodeAll(whole[1000:], enc.EncodeAll(whole[:1000], nil))
		if _, _, err := extract(t, archive, ExtractOptions{}); err != nil {
			t.Errorf("two frames that belong together: %v", err)
		}
	})
	t.Run("something in the middle is wrong", func(t *testing.T) {
		t.Parallel()
		for format, archive := range archives {
			broken := bytes.Clone(archive)
			for i := len(broken) / 3; i < len(broken)/3+20; i++ {
				broken[i] ^= 0x55
			}
			var damaged *FormatError
			if _, _, err := extract(t, broken, ExtractOptions{}); !errors.As(err, &damaged) {
				t.Errorf("%s: got %v", format, err)
			}
		}
	})
}

func TestExtractStops(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, build builder) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		archive := build(t, []entry{{"a", "x"}})
		dir := t.TempDir()
		if _, err := Extract(ctx, bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestExtractNothing(t *testing.T) {
	t.Parallel()
	for format, pack := range packers {
		var out bytes.Buffer
		if _, err := pack(context.Background(), &out, t.TempDir(), nil, Options{}); err != nil {
			t.Fatal(err)
		}
		dir, s, err := extract(t, out.Bytes(), ExtractOptions{})
		if diff := cmp.Diff(map[string]string{}, list(t, dir)); err != nil || diff != "" || s.Entries != 0 {
			t.Errorf("%s: %v %s", format, err, diff)
		}
	}
}

func TestNothingIsUnpackedIntoGit(t *testing.T) {
	t.Parallel()
	left := []string{
		".git/hooks/pre-commit", ".GIT/config", ".Git", "sub/.git/config", "git~1/config", "GIT~1", ".git./config", ".git /config", ".git::$INDEX_ALLOCATION/config",
		".g\u200cit/config", ".gi\ufefft",
	}
	for name, build := range builders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := []entry{{"kept", "k"}, {".gitignore", "k"}, {"a.git/x", "k"}, {"git~10", "k"}, {"link", "-> .git"}}
			for _, name := range left {
				entries = append(entries, entry{name, "evil"})
			}
			dir := t.TempDir()
			archive := build(t, entries)
			summary, err := Extract(t.Context(), bytes.NewReader(archive), int64(len(archive)), dir, ExtractOptions{NoGit: true})
			if err != nil || summary.Entries != 5 || len(summary.Warnings) != len(left) || summary.Warnings[0].Reason != Git {
				t.Fatalf("%+v, %v", summary, err)
			}
			found, err := os.ReadDir(dir)
			var names []string
			for _, entry := range found {
				names = append(names, entry.Name())
			}
			if want := []string{".gitignore", "a.git", "git~10", "kept", "link"}; err != nil || !slices.Equal(names, want) {
				t.Errorf("unpacked are %q, %v", names, err)
			}
		})
	}
}
