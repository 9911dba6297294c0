package pack_test

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
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/archive/unpack"
	"github.com/rungci/rung/steps/source/tree"
)

// extractors are all ways in which an archive that somebody else made becomes files. Each unpacks into a folder that exists.
var extractors = map[string]struct {
	zip, compressed bool // what it reads besides tar
	rooted          bool // names may begin with "/"
	replaces        bool // of two entries of one name the last counts, and folders give way to files
	inside          bool // links lead nowhere else than into the folder
	extract         func(data []byte, dir string) error
}{
	"artifacts and caches": {zip: true, compressed: true, extract: func(data []byte, dir string) error {
		_, err := pack.Extract(context.Background(), bytes.NewReader(data), int64(len(data)), dir, pack.ExtractOptions{MaxBytes: 1 << 20, MaxEntries: 100, Workers: 1})
		return err
	}},
	"what an environment sends": {extract: func(data []byte, dir string) error {
		return archive.UnpackWithin(context.Background(), bytes.NewReader(data), dir, archive.Limits{Bytes: 1 << 20, Entries: 100})
	}},
	"a component's archive": {zip: true, compressed: true, inside: true, extract: func(data []byte, dir string) error {
		file := filepath.Join(filepath.Dir(filepath.Dir(dir)), "archive")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		return throughTree(dir, func(w *tree.Writer) error { return unpack.File(context.Background(), f, w) })
	}},
	"the layer of an artifact": {compressed: true, inside: true, extract: func(data []byte, dir string) error {
		return throughTree(dir, layer(unpack.Artifact, data))
	}},
	"the layer of an image": {compressed: true, rooted: true, replaces: true, inside: true, extract: func(data []byte, dir string) error {
		return throughTree(dir, layer(unpack.Image, data))
	}},
	"a package of the cache": {inside: true, extract: func(data []byte, dir string) error {
		m, err := tree.Verify(bytes.NewReader(data), "")
		var differs *tree.CorruptError
		switch {
		case m != nil, !errors.As(err, &differs):
			return err
		case differs.Err != nil:
			return differs.Err
		}
		_, err = tree.Extract(bytes.NewReader(data), differs.Got, dir, "") // as one who forged the digest, too
		if errors.As(err, &differs) && differs.Err != nil {
			return differs.Err
		}
		return err
	}},
}

func layer(kind unpack.Kind, data []byte) func(*tree.Writer) error {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return func(w *tree.Writer) error {
		return unpack.Layers(context.Background(), []unpack.Layer{{Kind: kind, Open: open}}, w)
	}
}

func throughTree(dir string, fill func(*tree.Writer) error) error {
	var packed bytes.Buffer
	w := tree.NewWriter(&packed)
	if err := fill(w); err != nil {
		return err
	}
	digest, err := w.Close()
	if err != nil {
		return err
	}
	_, err = tree.Extract(&packed, digest, dir, "")
	return err
}

// refused reports whether an error is about what an archive holds.
func refused(err error) bool {
	return unpack.Refused(err) || err != nil && strings.Contains(err.Error(), "no files")
}

// held is an entry of an archive: "-> x" is a link, "=> x" a hard link, "| " a pipe, a name with a slash at its end a folder.
type held struct{ name, content string }

func tarOf(t testing.TB, entries ...held) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(e.content))}
		for start, typ := range map[string]byte{"-> ": tar.TypeSymlink, "=> ": tar.TypeLink, "| ": tar.TypeFifo} {
			if to, ok := strings.CutPrefix(e.content, start); ok {
				h.Typeflag, h.Linkname, h.Size = typ, to, 0
			}
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, e.content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipOf is nil when a zip archive cannot hold the entries.
func zipOf(t testing.TB, entries ...held) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o644)
		content := e.content
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			h.SetMode(fs.ModeSymlink | 0o777)
			content = to
		} else if strings.HasPrefix(content, "=> ") || strings.HasPrefix(content, "| ") {
			return nil
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(e.name, "/") {
			_, _ = io.WriteString(f, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdOf(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// attempt unpacks an archive two folders below one that holds something precious, and checks that nothing else came to be there.
func attempt(t *testing.T, extract func([]byte, string) error, inside bool, data []byte) (dir string, err error) {
	t.Helper()
	outer := t.TempDir()
	dir = filepath.Join(outer, "a", "in")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(outer, "precious")
	if err := os.WriteFile(precious, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = extract(data, dir)
	if text, rerr := os.ReadFile(precious); rerr != nil || string(text) != "kept" {
		t.Errorf("a file outside became %q, %v", text, rerr)
	}
	for folder, most := range map[string]int{outer: 3, filepath.Join(outer, "a"): 1} { // precious, a, and perhaps the archive
		if found, rerr := os.ReadDir(folder); rerr != nil || len(found) > most {
			t.Errorf("something was written outside: %v, %v", found, rerr)
		}
	}
	_ = filepath.WalkDir(dir, func(full string, entry fs.DirEntry, werr error) error {
		if werr != nil || !inside || entry.Type() != fs.ModeSymlink {
			return nil
		}
		to, _ := os.Readlink(full)
		if rel, rerr := filepath.Rel(dir, filepath.Join(filepath.Dir(full), to)); filepath.IsAbs(to) || rerr != nil || !filepath.IsLocal(rel) {
			t.Errorf("a link leads out: %s -> %s", full, to)
		}
		return nil
	})
	return dir, err
}

// TestEveryExtractorHoldsTheSameRules tries hostile archives in all formats on all that unpacks them.
func TestEveryExtractorHoldsTheSameRules(t *testing.T) {
	t.Parallel()
	many := []held{{"f", "x"}}
	for len(many) < 120 {
		many = append(many, held{strings.Repeat("d/", len(many)), ""})
	}
	for name, test := range map[string]struct {
		entries  []held
		rooted   bool // fine in the layer of an image
		replaced bool // fine where entries replace each other
		tarOnly  bool
	}{
		"a name that leads out":                   {entries: []held{{"../precious", "x"}}},
		"a name that leads out further down":      {entries: []held{{"a/../../precious", "x"}}},
		"an absolute name":                        {entries: []held{{"/precious", "x"}}, rooted: true},
		"an empty name":                           {entries: []held{{"", "x"}}, rooted: true},
		"a file in place of the root":             {entries: []held{{".", "x"}}, rooted: true},
		"a file behind a link":                    {entries: []held{{"l", "-> ../.."}, {"l/precious", "x"}}, replaced: true},
		"a file behind a link that comes later":   {entries: []held{{"l/precious", "x"}, {"l", "-> ../.."}}, replaced: true},
		"a folder behind a link":                  {entries: []held{{"l", "-> ../.."}, {"l/d/f", ""}}, replaced: true},
		"a link over a link":                      {entries: []held{{"l", "-> ../.."}, {"l", "-> ../../precious"}}, replaced: true},
		"a file over a link":                      {entries: []held{{"l", "-> ../../precious"}, {"l", "x"}}, replaced: true},
		"a file in a file":                        {entries: []held{{"f", "x"}, {"f/g", "x"}}, replaced: true},
		"a name twice":                            {entries: []held{{"f", "x"}, {"./f", "y"}}, replaced: true},
		"a hard link that leads out":              {entries: []held{{"h", "=> ../../precious"}}, tarOnly: true},
		"a hard link to what is not in it":        {entries: []held{{"h", "=> /etc/passwd"}}, tarOnly: true},
		"a hard link to what comes later":         {entries: []held{{"h", "=> f"}, {"f", "x"}}, tarOnly: true},
		"folders deeper, or more, than may be":    {entries: many},
		"a hard link to a link, and a file there": {entries: []held{{"l", "-> ../../precious"}, {"h", "=> l"}, {"h", "x"}}, tarOnly: true, replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := tarOf(t, test.entries...)
			formats := map[string][]byte{"tar": plain, "tar.gz": gzipOf(t, plain), "tar.zst": zstdOf(t, plain), "zip": zipOf(t, test.entries...)}
			for who, x := range extractors {
				for format, data := range formats {
					if data == nil || format == "zip" && !x.zip || strings.HasPrefix(format, "tar.") && !x.compressed {
						continue
					}
					_, err := attempt(t, x.extract, x.inside, data)
					if fine := test.rooted && x.rooted || test.replaced && x.replaces; !refused(err) && !(fine && err == nil) {
						t.Errorf("%s, %s: got %v", who, format, err)
					}
				}
			}
		})
	}
}

// TestEveryExtractorHasLimitsAndReadsToTheEnd tries archives that are larger than they look, and that are not whole.
func TestEveryExtractorHasLimitsAndReadsToTheEnd(t *testing.T) {
	t.Parallel()
	good := tarOf(t, held{"f", strings.Repeat("x", 2000)}, held{"zeros", strings.Repeat("\x00", 1024)})
	for name, test := range map[string]struct {
		data  []byte
		layer bool // fine in the layer of an image
	}{
		"a file that says it is larger than the limit": {data: lying(t)},
		"a sparse file":                {data: sparse(t)},
		"cut in a header":              {data: good[:300]},
		"cut in a file":                {data: good[:1500]},
		"cut before its end":           {data: good[:len(good)-1024], layer: true},
		"something behind its end":     {data: append(bytes.Clone(good), "and more"...), layer: true},
		"gzip without its checksum":    {data: cut(gzipOf(t, good), 6)},
		"a frame of Zstandard missing": {data: append(zstdOf(t, good[:1000]), zstdOf(t, good[1000:len(good)-1024])...), layer: true},
		"nothing":                      {data: nil},
		"a web page":                   {data: []byte("<!DOCTYPE html><html>log in</html>")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for who, x := range extractors {
				dir, err := attempt(t, x.extract, x.inside, test.data)
				if !refused(err) && !(test.layer && x.rooted && err == nil) {
					t.Errorf("%s: got %v", who, err)
				}
				if _, serr := os.Stat(filepath.Join(dir, "huge")); serr == nil {
					t.Errorf("%s: the huge file was written", who)
				}
			}
		})
	}
	for who, x := range extractors {
		if _, err := attempt(t, x.extract, x.inside, good); err != nil {
			t.Errorf("%s: a good archive is refused: %v", who, err)
		}
	}
}

// TestZipArchivesMayHaveTheRecordsOfLargeOnes takes small archives that have them too, as some writers always add them, but only where both
// say the same.
func TestZipArchivesMayHaveTheRecordsOfLargeOnes(t *testing.T) {
	t.Parallel()
	plain := zipOf(t, held{"f", "x"}, held{"d/g", "y"})
	list, end := plain[:len(plain)-22], plain[len(plain)-22:]
	count, size, offset := uint64(2), uint64(binary.LittleEndian.Uint32(end[12:])), uint64(binary.LittleEndian.Uint32(end[16:]))
	with := func(between string, count, size, offset, at uint64) []byte {
		out := append(bytes.Clone(list), between...)
		at += uint64(len(out))
		out = append(out, "PK\x06\x06"...)
		out = binary.LittleEndian.AppendUint64(out, 44)
		out = append(out, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		for _, n := range []uint64{count, count, size, offset} {
			out = binary.LittleEndian.AppendUint64(out, n)
		}
		out = append(out, "PK\x06\x07\x00\x00\x00\x00"...)
		out = binary.LittleEndian.AppendUint64(out, at)
		out = append(out, 1, 0, 0, 0)
		return append(out, end...)
	}
	for name, test := range map[string]struct {
		data []byte
		fine bool
	}{
		"both say the same":                 {with("", count, size, offset, 0), true},
		"another number of entries":         {with("", count+1, size, offset, 0), false},
		"another size":                      {with("", count, size-1, offset, 0), false},
		"another place":                     {with("", count, size, offset+1, 0), false},
		"the record is elsewhere":           {with("", count, size, offset, 1), false},
		"something between list and record": {with("more", count, size, offset, 0), false},
		"the locator is not one":            {bytes.Replace(with("", count, size, offset, 0), []byte("PK\x06\x07"), []byte("PK\x06\x08"), 1), false},
		"the record is not one":             {bytes.Replace(with("", count, size, offset, 0), []byte("PK\x06\x06"), []byte("PK\x06\x08"), 1), false},
	} {
		for who, x := range extractors {
			if !x.zip {
				continue
			}
			dir, err := attempt(t, x.extract, x.inside, test.data)
			if test.fine && err != nil || !test.fine && !refused(err) {
				t.Errorf("%s, %s: got %v", name, who, err)
			}
			if text, rerr := os.ReadFile(filepath.Join(dir, "d", "g")); test.fine && (rerr != nil || string(text) != "y") {
				t.Errorf("%s, %s: a file is %q, %v", name, who, text, rerr)
			}
		}
	}
}

func cut(data []byte, n int) []byte { return data[:len(data)-n] }

// lying is an archive whose one file says that it has a terabyte.
func lying(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), make([]byte, 1024)...)
}

// sparse is an archive whose one file has 3 GiB that are one hole. Package tar writes no such file, but copies records that it does not know.
func sparse(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Mode: 0o644, Format: tar.FormatPAX, PAXRecords: map[string]string{
		"XXX.sparse.numblocks": "1", "XXX.sparse.map": "3221225472,0", "XXX.sparse.size": "3221225472",
	}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("XXX.sparse"), []byte("GNU.sparse"))
}

// FuzzEveryExtractor holds for any bytes that nothing is written outside, and that what is wrong is said to be the archive's fault.
func FuzzEveryExtractor(f *testing.F) {
	for _, entries := range [][]held{
		{{"a/b", "text"}, {"l", "-> .."}, {"d/", ""}}, {{"l", "-> ../.."}, {"l/precious", "x"}}, {{"../precious", "x"}}, {{"a", "b"}, {"c", "=> a"}},
		{{"a", "-> /b"}, {"a/c", "d"}}, {{"a/b", ""}, {"a/.wh..wh..opq", ""}, {".wh.a", ""}}, {{"p", "| "}},
	} {
		plain := tarOf(f, entries...)
		f.Add(plain)
		f.Add(gzipOf(f, plain))
		if zipped := zipOf(f, entries...); zipped != nil {
			f.Add(zipped)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for who, x := range extractors {
			if _, err := attempt(t, x.extract, x.inside, data); err != nil && !refused(err) && !pathRefused(err) {
				t.Errorf("%s: not a refusal: %T %v", who, err, err)
			}
		}
	})
}

// pathRefused reports whether the system refused a name that is fine elsewhere, such as a long one.
func pathRefused(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}
