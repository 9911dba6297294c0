package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// unpacked packs an archive's content and lays it out in a new folder.
func unpacked(t testing.TB, data []byte) (dir, digest string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return packed(t, func(w *tree.Writer) error { return File(context.Background(), f, w) })
}

func packed(t testing.TB, fill func(*tree.Writer) error) (dir, digest string, err error) {
	t.Helper()
	var pack bytes.Buffer
	w := tree.NewWriter(&pack)
	if err := fill(w); err != nil {
		return "", "", err
	}
	if digest, err = w.Close(); err != nil {
		return "", "", err
	}
	dir = filepath.Join(t.TempDir(), "tree")
	if _, err := tree.Extract(&pack, digest, dir, ""); err != nil {
		t.Fatalf("what was packed cannot be unpacked: %v", err)
	}
	return dir, digest, nil
}

// entry is a file of a tar archive.
type tarEntry struct {
	name, content string
	typ           byte
	link          string
	mode          int64
}

func tarOf(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Linkname: e.link, Mode: e.mode, Size: int64(len(e.content))}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipOf makes a zip archive; change may be nil.
func zipOf(t testing.TB, change func(*zip.FileHeader), names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o644)
		if change != nil {
			change(h)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		content := "content of " + name
		if h.Mode()&fs.ModeSymlink != 0 {
			content = h.Comment
		}
		if !strings.HasSuffix(name, "/") {
			_, _ = io.WriteString(f, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func mode(m fs.FileMode) func(*zip.FileHeader) { return func(h *zip.FileHeader) { h.SetMode(m) } }

// linkTo makes every entry a link; the comment holds its target for zipOf.
func linkTo(target string) func(*zip.FileHeader) {
	return func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777); h.Comment = target }
}

func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := tree.Walk(dir, func(name string, info fs.FileInfo) error {
		full := filepath.Join(dir, name)
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(full)
			got[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(full)
		got[name] = string(data)
		if info.Mode()&0o111 != 0 {
			got[name] = "* " + string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func needsUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a file system with modes and links")
	}
}

func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"func.yml": "run: []\n", "bin/run.sh": "#!/bin/sh\n", "empty": "", "ü/ö": "utf-8", "func.yml.dsse": "{}"} {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "bin/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bin/run.sh", filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "nothing"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnArchiveHasTheDigestOfTheFolderThatItWasMadeFrom(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	dir := sample(t)
	want, err := tree.Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := sourcetest.Zip(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := sourcetest.Tar(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	dotted, err := sourcetest.Tar(dir, "./")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"zip": zipped, "tar": plain, "tar.gz": sourcetest.Gzip(plain), "tar with ./ before names": dotted, "tar.zst": zst(t, plain),
		"tar.gz in two parts": append(sourcetest.Gzip(plain[:1000]), sourcetest.Gzip(plain[1000:])...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, err := unpacked(t, data)
			if err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

func zst(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(data, nil)
}

func TestATopFolderStays(t *testing.T) {
	t.Parallel()
	dir, _, err := unpacked(t, zipOf(t, nil, "project-1.0/", "project-1.0/func.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"project-1.0/func.yml": "content of project-1.0/func.yml"}, list(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestZipsFromWindows(t *testing.T) {
	t.Parallel()
	windows := func(h *zip.FileHeader) { h.CreatorVersion, h.ExternalAttrs = 0, 0x20 } // from FAT
	t.Run("backslashes separate", func(t *testing.T) {
		t.Parallel()
		dir, _, err := unpacked(t, zipOf(t, windows, `bin\run.sh`, "func.yml"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"bin/run.sh": `content of bin\run.sh`, "func.yml": "content of func.yml"}
		if diff := cmp.Diff(want, list(t, dir)); diff != "" {
			t.Error(diff) // and nothing is executable, as nothing says so
		}
	})
	for name, entry := range map[string]string{"both separators": `bin/run\me`, "backslashes that lead out": `..\..\func.yml`, "a drive": `C:\func.yml`} {
		t.Run("refused: "+name, func(t *testing.T) {
			t.Parallel()
			refused(t, zipOf(t, windows, entry), "")
		})
	}
}

// refused checks that an archive is refused, with a text in the reason.
func refused(t *testing.T, data []byte, why string) {
	t.Helper()
	_, _, err := unpacked(t, data)
	if err == nil || !Refused(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("got the error %v, want a refusal with %q", err, why)
	}
}

func TestHostileZips(t *testing.T) {
	t.Parallel()
	good := zipOf(t, nil, "func.yml", "bin/run.sh")
	bomb := func() []byte {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		f, _ := w.Create("bomb")
		zeros := make([]byte, 1<<20)
		for range 8 {
			_, _ = f.Write(zeros)
		}
		_ = w.Close()
		return out.Bytes()
	}
	for name, test := range map[string]struct {
		data []byte
		why  string
	}{
		"..":                              {zipOf(t, nil, "../func.yml"), `".."`[1:3]},
		".. inside":                       {zipOf(t, nil, "a/../../func.yml"), ".."},
		"absolute":                        {zipOf(t, nil, "/etc/passwd"), "absolute path"},
		"a drive":                         {zipOf(t, nil, "C:/func.yml"), "drive"},
		"a backslash from unix":           {zipOf(t, nil, `a\b`), "not every system"},
		"not UTF-8":                       {zipOf(t, nil, "a\xff"), "UTF-8"},
		"an empty name":                   {zipOf(t, nil, ""), "empty"},
		"a NUL":                           {zipOf(t, nil, "a\x00b"), "zero byte"},
		"twice the same":                  {zipOf(t, nil, "a", "a"), "twice"},
		"twice the same in other words":   {zipOf(t, nil, "a", "./a"), "twice"},
		"a file and a folder":             {zipOf(t, nil, "a", "a/b"), "not a folder"},
		"a folder and a file":             {zipOf(t, nil, "a/b", "a"), "twice"},
		".GIT":                            {zipOf(t, nil, ".GIT/config"), ".git"},
		".git as NTFS knows it":           {zipOf(t, nil, "git~1/config"), ".git"},
		"a link that leads out":           {zipOf(t, linkTo("../etc"), "a"), "outside"},
		"an absolute link":                {zipOf(t, linkTo("/etc/passwd"), "a"), "not a relative path"},
		"a link to nothing":               {zipOf(t, linkTo(""), "a"), "empty"},
		"a very long link":                {zipOf(t, linkTo(strings.Repeat("a", 4000)), "a"), "link"},
		"a device":                        {zipOf(t, mode(fs.ModeDevice), "a"), "neither"},
		"a pipe":                          {zipOf(t, mode(fs.ModeNamedPipe), "a"), "neither"},
		"a socket":                        {zipOf(t, mode(fs.ModeSocket), "a"), "neither"},
		"encrypted":                       {patch(good, "PK\x01\x02", 8, 1), "encrypted"},
		"an unknown method":               {patch(good, "PK\x01\x02", 10, 14), "compressed with the method 14"},
		"an entry that says it is larger": {patch(good, "PK\x01\x02", 24, 200), "cannot be read"},
		"an entry that says it is less":   {patch(good, "PK\x01\x02", 24, 3), ""},
		"a wrong checksum":                {patch(good, "PK\x01\x02", 16, 7), "cannot be read"},
		"more entries than it says":       {patch(good, "PK\x05\x06", 10, 1), "entries"},
		"fewer entries than it says":      {patch(good, "PK\x05\x06", 10, 3), "entries"},
		"65,535 entries that are not":     {patch16(good, "PK\x05\x06", 10, 0xffff), "entries"},
		"its list somewhere else":         {patch(good, "PK\x05\x06", 16, 1), "not where"},
		"cut off":                         {good[:len(good)-10], "cut short"},
		"cut in half":                     {good[:len(good)/2], "cut short"},
		"something behind it":             {append(bytes.Clone(good), "and more"...), "follows its end"},
		"several volumes":                 {patch(good, "PK\x05\x06", 4, 1), "volumes"},
		"a bomb that says it is small":    {patch32(bomb(), "PK\x01\x02", 24, 10), ""},
		"a bomb that says it is large":    {patch32(bomb(), "PK\x01\x02", 24, 0xfffffff0), "larger"},
		"nothing":                         {nil, "is empty"},
		"a web page":                      {[]byte("\n<!DOCTYPE html><html>log in</html>"), "web page"},
		"xz":                              {[]byte("\xfd7zXZ\x00aaaaaaaaaaa"), "xz"},
		"text":                            {[]byte("hello"), "neither zip nor tar"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, test.data, test.why)
		})
	}
	t.Run("an archive without files", func(t *testing.T) {
		t.Parallel()
		if _, _, err := unpacked(t, zipOf(t, nil)); err == nil {
			t.Error("it was taken")
		}
	})
}

// patch changes a byte of the first record with a signature.
func patch(data []byte, signature string, at int, b byte) []byte {
	data = bytes.Clone(data)
	data[bytes.Index(data, []byte(signature))+at] = b
	return data
}

func patch16(data []byte, signature string, at int, v uint16) []byte {
	data = bytes.Clone(data)
	binary.LittleEndian.PutUint16(data[bytes.Index(data, []byte(signature))+at:], v)
	return data
}

func patch32(data []byte, signature string, at int, v uint32) []byte {
	data = bytes.Clone(data)
	binary.LittleEndian.PutUint32(data[bytes.Index(data, []byte(signature))+at:], v)
	return data
}

func TestAMillionEntriesAreRefusedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	const directorySize, end64Size, locatorSize, endSize = 46, 56, 20, 22
	entry := make([]byte, directorySize+1)
	copy(entry, "PK\x01\x02")
	entry[28], entry[46] = 1, 'a'
	const n = 1_000_000
	end64 := make([]byte, end64Size+locatorSize+endSize)
	copy(end64, "PK\x06\x06")
	binary.LittleEndian.PutUint64(end64[4:], 44)
	binary.LittleEndian.PutUint64(end64[24:], n)
	binary.LittleEndian.PutUint64(end64[32:], n)
	binary.LittleEndian.PutUint64(end64[40:], uint64(n*len(entry)))
	binary.LittleEndian.PutUint64(end64[48:], 4)
	copy(end64[end64Size:], "PK\x06\x07")
	binary.LittleEndian.PutUint64(end64[end64Size+8:], uint64(4+n*len(entry)))
	end := end64[end64Size+locatorSize:]
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[8:], 0xffff)
	binary.LittleEndian.PutUint16(end[10:], 0xffff)
	data := append([]byte("PK\x03\x04"), bytes.Repeat(entry, n)...)
	t.Run("where it says so", func(t *testing.T) {
		t.Parallel()
		_, _, err := unpacked(t, append(bytes.Clone(data), end64...))
		if !errors.Is(err, tree.ErrLimit) || !strings.Contains(err.Error(), "200000 entries") {
			t.Error(err)
		}
	})
	t.Run("where it says that there are ten", func(t *testing.T) {
		t.Parallel()
		lying := bytes.Clone(end64)
		binary.LittleEndian.PutUint64(lying[32:], 10)
		refused(t, append(bytes.Clone(data), lying...), "entries")
	})
	t.Run("in a tar archive", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("needs 100 MB")
		}
		one := tarOf(t, tarEntry{name: "a/", typ: tar.TypeDir})[:512]
		_, _, err := unpacked(t, append(bytes.Repeat(one, MaxEntries+1), make([]byte, 1024)...))
		if !errors.Is(err, tree.ErrLimit) {
			t.Error(err)
		}
	})
}

func TestHostileTars(t *testing.T) {
	t.Parallel()
	good := tarOf(t, tarEntry{name: "func.yml", content: "x"})
	for name, test := range map[string]struct {
		data []byte
		why  string
	}{
		"..":                            {tarOf(t, tarEntry{name: "../a"}), ".."},
		"absolute":                      {tarOf(t, tarEntry{name: "/a"}), "absolute"},
		"a device":                      {tarOf(t, tarEntry{name: "null", typ: tar.TypeChar}), "a device"},
		"a pipe":                        {tarOf(t, tarEntry{name: "pipe", typ: tar.TypeFifo}), "a pipe"},
		"twice the same":                {tarOf(t, tarEntry{name: "a"}, tarEntry{name: "./a"}), "twice"},
		"below a file":                  {tarOf(t, tarEntry{name: "a"}, tarEntry{name: "a/b"}), "not a folder"},
		"below a link":                  {tarOf(t, tarEntry{name: "a", typ: tar.TypeSymlink, link: "b"}, tarEntry{name: "a/c"}), "not a folder"},
		"a link that leads out":         {tarOf(t, tarEntry{name: "d/a", typ: tar.TypeSymlink, link: "../../x"}), "outside"},
		"an absolute link":              {tarOf(t, tarEntry{name: "a", typ: tar.TypeSymlink, link: "/etc"}), "relative"},
		"a hard link to nothing":        {tarOf(t, tarEntry{name: "a", typ: tar.TypeLink, link: "b"}), "hard link"},
		"a hard link that leads out":    {tarOf(t, tarEntry{name: "a", typ: tar.TypeLink, link: "../../etc/passwd"}), "hard link"},
		"a hard link to itself":         {tarOf(t, tarEntry{name: "a", typ: tar.TypeLink, link: "a"}), "hard link"},
		"cut off in a file":             {good[:513], "cut short"},
		"cut off before its end":        {good[:1024], "its end is missing"},
		"something behind it":           {append(bytes.Clone(good), "and more"...), "follows its end"},
		"gzip that is cut off":          {sourcetest.Gzip(good)[:60], "cannot be read"},
		"gzip without its checksum":     {cut(sourcetest.Gzip(good), 6), "cannot be read"},
		"something behind gzip":         {append(sourcetest.Gzip(good), "and more"...), "cannot be read"},
		"gzip of something else":        {sourcetest.Gzip([]byte("hello")), "no tar archive"},
		"zstd that is cut off":          {cut(zst(t, good), 4), ""},
		"a file that says it is larger": {hugeSparse(t), "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, test.data, test.why)
		})
	}
}

func cut(data []byte, n int) []byte { return data[:len(data)-n] }

// hugeSparse is a file that takes no room in the archive and says that it has a terabyte.
func hugeSparse(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatIsTakenFromTars(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	dir, _, err := unpacked(t, tarOf(t,
		tarEntry{name: "d/", typ: tar.TypeDir},
		tarEntry{name: "d/run", content: "run", mode: 0o4755},
		tarEntry{name: "copy", typ: tar.TypeLink, link: "./d/run"},
		tarEntry{name: "again", typ: tar.TypeLink, link: "copy"},
		tarEntry{name: "link", typ: tar.TypeSymlink, link: "d/run"},
		tarEntry{name: ".git/config", content: "no part of it"},
		tarEntry{name: ".wh.gone", content: "a name as any other"},
	))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"d/run": "* run", "copy": "* run", "again": "* run", "link": "-> d/run", ".wh.gone": "a name as any other"}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestCancelling(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("enough")
	cancel(reason)
	file := filepath.Join(t.TempDir(), "a")
	for _, data := range [][]byte{zipOf(t, nil, "a"), tarOf(t, tarEntry{name: "a", content: "b"})} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := File(ctx, f, tree.NewWriter(io.Discard)); !errors.Is(err, reason) {
			t.Error(err)
		}
		_ = f.Close()
	}
}

func layerOf(kind Kind, data []byte) Layer {
	return Layer{Kind: kind, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, Size: int64(len(data))}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	needsUnix(t)
	for name, test := range map[string]struct {
		kind   Kind
		layers [][]tarEntry
		want   map[string]string
	}{
		"a later layer replaces files": {
			Artifact, [][]tarEntry{{{name: "a", content: "1"}, {name: "b", content: "1"}}, {{name: "a", content: "2", mode: 0o755}}},
			map[string]string{"a": "* 2", "b": "1"},
		},
		"a whiteout takes a file or a folder away": {
			Artifact, [][]tarEntry{{{name: "a", content: "1"}, {name: "d/b", content: "1"}, {name: "c", content: "1"}}, {{name: ".wh.a"}, {name: ".wh.d"}, {name: ".wh.no"}}},
			map[string]string{"c": "1"},
		},
		"a whiteout is about earlier layers": {
			Image, [][]tarEntry{{{name: "d/a", content: "1"}}, {{name: "d/a", content: "2"}, {name: "d/.wh.a"}}},
			map[string]string{"d/a": "2"},
		},
		"an opaque folder hides what was in it": {
			Image, [][]tarEntry{{{name: "d/a", content: "1"}, {name: "d/e/b", content: "1"}, {name: "x", content: "1"}}, {{name: "d/c", content: "2"}, {name: "d/.wh..wh..opq"}}},
			map[string]string{"d/c": "2", "x": "1"},
		},
		"a file takes the place of a folder, and the other way round": {
			Image, [][]tarEntry{{{name: "a/b", content: "1"}, {name: "c", content: "1"}}, {{name: "a", content: "2"}, {name: "c/d", content: "2"}}},
			map[string]string{"a": "2", "c/d": "2"},
		},
		"devices of an image are left out, and names that not every system has": {
			Image, [][]tarEntry{{{name: "dev/null", typ: tar.TypeChar}, {name: `a\x2d`, content: "1"}, {name: "/b", content: "1"}}},
			map[string]string{"b": "1"},
		},
		"of two files of one name in an image the last counts": {
			Image, [][]tarEntry{{{name: "a", content: "1"}, {name: "a", content: "2"}}},
			map[string]string{"a": "2"},
		},
		"links of an image lead where they lead in it": {
			Image, [][]tarEntry{{
				{name: "usr/bin/sh", typ: tar.TypeSymlink, link: "/bin/busybox"}, {name: "bin/busybox", content: "b", mode: 0o755},
				{name: "up", typ: tar.TypeSymlink, link: "../../../etc"}, {name: "a/b/root", typ: tar.TypeSymlink, link: "/"}, {name: "a/ok", typ: tar.TypeSymlink, link: "../up"},
			}},
			map[string]string{"usr/bin/sh": "-> ../../bin/busybox", "bin/busybox": "* b", "up": "-> etc", "a/b/root": "-> ../..", "a/ok": "-> ../up"},
		},
		"a path of an image leads through links": {
			Image, [][]tarEntry{{{name: "usr/bin/a", content: "1"}, {name: "bin", typ: tar.TypeSymlink, link: "/usr/bin"}}, {{name: "bin/b", content: "2"}, {name: "bin/.wh.a"}}},
			map[string]string{"usr/bin/b": "2", "bin": "-> usr/bin"},
		},
		"a hard link reaches into earlier layers": {
			Image, [][]tarEntry{{{name: "a", content: "1"}}, {{name: "b", typ: tar.TypeLink, link: "/a"}, {name: ".wh.a"}, {name: "c", content: "2"}}, {{name: "x"}}},
			nil, // a is gone before the link is made
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var layers []Layer
			for i, entries := range test.layers {
				data := tarOf(t, entries...)
				if i%2 == 0 {
					data = sourcetest.Gzip(data)
				}
				layers = append(layers, layerOf(test.kind, data))
			}
			dir, _, err := packed(t, func(w *tree.Writer) error { return Layers(context.Background(), layers, w) })
			if test.want == nil {
				if !Refused(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, list(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("links of an image that lead in a circle are refused", func(t *testing.T) {
		t.Parallel()
		data := tarOf(t, tarEntry{name: "a", typ: tar.TypeSymlink, link: "b"}, tarEntry{name: "b", typ: tar.TypeSymlink, link: "a"}, tarEntry{name: "a/c"})
		err := Layers(context.Background(), []Layer{layerOf(Image, data)}, tree.NewWriter(io.Discard))
		if !Refused(err) || !strings.Contains(err.Error(), "circle") {
			t.Error(err)
		}
	})
	t.Run("a name that leads out of an image is refused", func(t *testing.T) {
		t.Parallel()
		err := Layers(context.Background(), []Layer{layerOf(Image, tarOf(t, tarEntry{name: "a/../../b"}))}, tree.NewWriter(io.Discard))
		if !Refused(err) {
			t.Error(err)
		}
	})
	t.Run("a layer with a title that is no archive is a file", func(t *testing.T) {
		t.Parallel()
		layer := layerOf(Artifact, []byte("run: []\n"))
		layer.Title = "steps/func.yml"
		dir, _, err := packed(t, func(w *tree.Writer) error { return Layers(context.Background(), []Layer{layer}, w) })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"steps/func.yml": "run: []\n"}, list(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}
