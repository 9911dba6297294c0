package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source/tree"
	"github.com/rungci/rung/steps/trace"
)

// document is a small trace.
func document(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range []event.Body{
		event.RunStarted{ID: "x"}, event.StepStarted{Name: "one", Kind: event.KindScript},
		event.Log{Stream: event.Stdout, Data: []byte("hello\n")}, event.StepFinished{Status: event.Success}, event.RunFinished{Status: event.Success},
	} {
		step := ""
		if i > 0 && i < 4 {
			step = "1"
		}
		r.Event(event.Event{Seq: int64(i + 1), Step: step, Body: body})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// item packs one file.
func item(t testing.TB, text string) Item {
	t.Helper()
	var pack bytes.Buffer
	w := tree.NewWriter(&pack)
	if err := w.AddFile("func.yml", false, int64(len(text)), strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	digest, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return Item{Digest: digest, Components: []string{"./b", "./a", "./b"}, Open: opener(pack.Bytes())}
}

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// small is a whole bundle.
func small(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := Write(&out, opener(document(t)), []Item{item(t, "one"), item(t, "two")}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(t testing.TB, data []byte) (*Bundle, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.bundle")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(path)
	if err == nil {
		t.Cleanup(func() { b.Close() })
	}
	return b, err
}

func TestABundleHoldsATraceAndItsPackages(t *testing.T) {
	b, err := open(t, small(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(); err != nil {
		t.Error(err)
	}
	tr, err := b.Trace()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	if err := tr.Log("1", &log); err != nil || log.String() != "hello\n" {
		t.Errorf("the log is %q, %v", log.String(), err)
	}
	one := item(t, "one")
	in, err := b.Package(one.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := tree.Verify(in, one.Digest); err != nil {
		t.Error(err)
	}
	if got := b.Manifest.Packages[0].Components; fmt.Sprint(got) != "[./a ./b]" {
		t.Errorf("the components are %v", got)
	}
	for _, digest := range []string{item(t, "three").Digest, "", "sha256:", "sha256:../../manifest.json", "trace.json"} {
		if _, err := b.Package(digest); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the package %q gives %v", digest, err)
		}
	}
}

func TestTheSameGivesTheSameBytes(t *testing.T) {
	doc := document(t)
	var a, b bytes.Buffer
	if _, err := Write(&a, opener(doc), []Item{item(t, "one"), item(t, "two")}); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(&b, opener(doc), []Item{item(t, "two"), item(t, "one")}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the bytes differ")
	}
}

func TestAPackageThatIsNotWhatItsDigestSaysIsNotPacked(t *testing.T) {
	wrong := item(t, "one")
	wrong.Open = item(t, "two").Open
	var corrupt *tree.CorruptError
	if _, err := Write(io.Discard, opener(document(t)), []Item{wrong}); !errors.As(err, &corrupt) {
		t.Errorf("the error is %v", err)
	}
}

// file is a file of an archive that a test makes.
type file struct {
	name string
	data []byte
}

// files are those of a whole bundle.
func files(t testing.TB) []file {
	t.Helper()
	data := small(t)
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var out []file
	for _, f := range archive.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file{f.Name, content})
	}
	return out
}

func zipped(t testing.TB, files []file) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		entry, err := w.Create(f.name)
		if err == nil {
			_, err = entry.Write(f.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBundlesThatLie(t *testing.T) {
	replace := func(name string, change func([]byte) []byte) []byte {
		all := files(t)
		for i := range all {
			if strings.HasPrefix(all[i].name, name) {
				all[i].data = change(all[i].data)
				break
			}
		}
		return zipped(t, all)
	}
	many := func(n int) []byte {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for i := range n {
			if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		return out.Bytes()
	}
	// announced says that there are few files where there are many.
	announced := func(data []byte) []byte {
		end := len(data) - 22
		binary.LittleEndian.PutUint16(data[end+8:], 4)
		binary.LittleEndian.PutUint16(data[end+10:], 4)
		return data
	}
	whole := small(t)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "is not a bundle"},
		{"text", []byte("hello"), "is not a bundle"},
		{"an archive of something else", zipped(t, []file{{"manifest.json", []byte(`{"format": "other/v1"}`)}}), "is not a bundle"},
		{"an archive without a manifest", zipped(t, files(t)[1:]), "is not a bundle"},
		{"cut", whole[:len(whole)-40], "is damaged"},
		{"cut early", whole[:100], "it is cut short"},
		{"a newer version", replace("manifest", func(b []byte) []byte { return bytes.Replace(b, []byte("bundle/v1"), []byte("bundle/v2"), 1) }), "a newer version wrote it"},
		{"another file", zipped(t, append(files(t), file{"evil", nil})), `it has the file "evil"`},
		{"a file that climbs", zipped(t, append(files(t), file{"packages/../../evil.tar", nil})), "it has the file"},
		{"an absolute file", zipped(t, append(files(t), file{"/etc/passwd", nil})), "it has the file"},
		{"a file twice", zipped(t, append(files(t), files(t)[2])), "twice"},
		{"a package that the manifest does not name", zipped(t, append(files(t), file{nameOf("sha256:" + strings.Repeat("ab", 32)), nil})), "its manifest names 2"},
		{"a package less", zipped(t, files(t)[:3]), "does not have the package"},
		{"no trace", zipped(t, append(files(t)[:1], files(t)[2:]...)), "does not have the trace"},
		{"too many files", many(MaxPackages + 3), "is damaged"},
		{"too many files, and it says that there are few", announced(many(40_000)), "is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(t, c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
	t.Run("another trace of the same size", func(t *testing.T) {
		b, err := open(t, replace("trace", func(b []byte) []byte { return bytes.Replace(b, []byte("hello"), []byte("jello"), 1) }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Trace(); err == nil || !strings.Contains(err.Error(), "not the one that its manifest names") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("another package of the same size", func(t *testing.T) {
		b, err := open(t, replace("packages", func(b []byte) []byte { return bytes.Replace(b, []byte("one"), []byte("own"), 1) }))
		if err != nil {
			t.Fatal(err)
		}
		b2, err2 := open(t, replace("packages", func(b []byte) []byte { return bytes.Replace(b, []byte("two"), []byte("own"), 1) }))
		if err2 != nil {
			t.Fatal(err2)
		}
		if b.Verify() == nil && b2.Verify() == nil {
			t.Error("nobody noticed")
		}
	})
}

func TestABundleThatGrows(t *testing.T) {
	all := files(t)
	var manifest Manifest
	if err := json.Unmarshal(all[0].data, &manifest); err != nil {
		t.Fatal(err)
	}
	data := zipped(t, all)
	// The size that the list of files announces for the trace is made smaller, as is that of the manifest.
	at := bytes.LastIndex(data, []byte("trace.json")) - 46
	smaller := uint32(manifest.Trace.Bytes - 100)
	binary.LittleEndian.PutUint32(data[at+24:], smaller)
	data = bytes.Clone(data)
	b, err := open(t, data)
	if err == nil {
		_, err = b.Trace()
	}
	if err == nil {
		t.Error("nobody noticed")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(small(f))
	f.Add([]byte("PK\x03\x04"))
	f.Add(zipped(f, []file{{"manifest.json", []byte(`{"format": "rung.bundle/v1", "packages": [{"digest": "sha256:"}]}`)}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := open(t, data)
		if err != nil {
			return
		}
		_ = b.Verify()
	})
}
