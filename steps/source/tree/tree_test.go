package tree_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/source/tree"
)

// pack packs files by name; a content that begins with "-> " is a link, a name that ends in * can be executed.
func pack(t *testing.T, files ...[2]string) (data []byte, digest string) {
	t.Helper()
	var out bytes.Buffer
	w := tree.NewWriter(&out)
	for _, f := range files {
		if err := add(w, f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	digest, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), digest
}

func add(w *tree.Writer, name, content string) error {
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		return w.AddSymlink(name, target)
	}
	bare := strings.TrimSuffix(name, "*")
	return w.AddFile(bare, bare != name, int64(len(content)), strings.NewReader(content))
}

func TestTheDigestIsThatOfTheManifest(t *testing.T) {
	t.Parallel()
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	manifest := "f " + sum("b") + " a.txt\n" +
		"x " + sum("run") + " a/run\n" +
		"l " + sum("a.txt") + " link\n"
	want := "sha256:" + sum(manifest)
	_, got := pack(t, [2]string{"link", "-> a.txt"}, [2]string{"a/run*", "run"}, [2]string{"a.txt", "b"}, [2]string{"component.dsse", "ignored"})
	if got != want {
		t.Errorf("packed: got %s, want %s", got, want)
	}
	if runtime.GOOS == "windows" {
		t.Skip("needs a file system with executable files: this is Windows")
	}
	dir := t.TempDir()
	write(t, dir, "a/run", "run", 0o700)
	write(t, dir, "a.txt", "b", 0o600)
	write(t, dir, ".git/config", "ignored", 0o600)
	write(t, dir, "component.dsse", "ignored", 0o600)
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := tree.Digest(dir); err != nil || got != want {
		t.Errorf("on disk: got %s (%v), want %s", got, err, want)
	}
}

func write(t *testing.T, dir, name, content string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestExtractGivesBackWhatWasPacked(t *testing.T) {
	t.Parallel()
	data, digest := pack(t, [2]string{"a/run*", "run"}, [2]string{"a.txt", "b"}, [2]string{"a/component.dsse", "signature"})
	dir := filepath.Join(t.TempDir(), "out")
	m, err := tree.Extract(bytes.NewReader(data), digest, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.txt", "a/run"}, m.Paths()); diff != "" {
		t.Error(diff)
	}
	if got, err := tree.Digest(dir); runtime.GOOS != "windows" && (err != nil || got != digest) {
		t.Errorf("the folder's digest is %s (%v), want %s", got, err, digest)
	}
	part, err := tree.Digest(filepath.Join(dir, "a"))
	if got := m.Digest("a"); runtime.GOOS != "windows" && (err != nil || got != part) {
		t.Errorf("the part's digest is %s in the manifest and %s on disk (%v)", got, part, err)
	}
	if !m.Has("a/run") || m.Has("a") || m.Has("a/ru") {
		t.Error("Has is wrong")
	}

	only := filepath.Join(t.TempDir(), "part")
	if _, err := tree.Extract(bytes.NewReader(data), digest, only, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(only, "a.txt")); err == nil {
		t.Error("what is outside of the part was extracted, too")
	}
}

func TestAChangedPackIsRefused(t *testing.T) {
	t.Parallel()
	data, digest := pack(t, [2]string{"run*", "echo hello"}, [2]string{"step.yml", "text"}, [2]string{"l", "-> run"})
	for i := range data {
		if i%7 != 0 && data[i] == 0 {
			continue // padding is alike; a sample of it will do
		}
		changed := bytes.Clone(data)
		changed[i] ^= 1
		dir := filepath.Join(t.TempDir(), "out")
		m, err := tree.Extract(bytes.NewReader(changed), digest, dir, "")
		if err == nil && m.Digest("") == digest {
			continue // a byte that means nothing: the padding, the owner
		}
		var corrupt *tree.CorruptError
		if !errors.As(err, &corrupt) {
			t.Fatalf("byte %d: the error is %v, want a CorruptError", i, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("byte %d: the folder was left", i)
		}
	}
	for _, n := range []int{0, 100, 600, len(data) / 2} {
		var corrupt *tree.CorruptError
		if _, err := tree.Verify(bytes.NewReader(data[:n]), digest); !errors.As(err, &corrupt) {
			t.Errorf("cut after %d bytes: the error is %v, want a CorruptError", n, err)
		}
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{
		"":             "is empty",
		"/etc/passwd":  "is absolute",
		"../x":         "has the element ..",
		"a/../../x":    "has the element ..",
		"a/./x":        "has the element .",
		"a//x":         "has an empty element",
		"a/":           "has an empty element",
		`a\..\x`:       "has a character",
		"a\x00b":       "has a character",
		"a\nb":         "has a character",
		"C:/x":         "begins with a drive",
		"c:x":          "begins with a drive",
		"\xff":         "is not UTF-8",
		".git/hooks/x": "is in a .git folder",
		"a/.GIT/x":     "is in a .git folder",
		"a/git~1/x":    "what some system takes for one",
		".g\u200cit/x": "what some system takes for one",
		".git ./x":     "what some system takes for one",
		".git::$DATA":  "what some system takes for one",
		strings.Repeat("a/", tree.MaxDepth) + "x": "folders deep",
		strings.Repeat("a", tree.MaxPath+1):       "is longer than",
	} {
		err := tree.CheckPath(name)
		var bad *tree.PathError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: the error is %v, want one that says it %s", name, err, why)
		}
	}
	for _, name := range []string{"a", "a/b.txt", "..a/b..", ".gitignore", ".github/x", "ünï", "a b"} {
		if err := tree.CheckPath(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatAWriterRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files [][2]string
		want  string
	}{
		{"a name twice", [][2]string{{"a", "1"}, {"a", "2"}}, "is there twice"},
		{"a file where a folder is", [][2]string{{"a/b", "1"}, {"a", "2"}}, "is there twice"},
		{"a file below a file", [][2]string{{"a", "1"}, {"a/b", "2"}}, "which is not a folder"},
		{"a file below a link", [][2]string{{"a", "-> b"}, {"a/c", "2"}}, "which is not a folder"},
		{"a link out of the tree", [][2]string{{"a/b", "-> ../../c"}}, "outside of the tree"},
		{"a link that climbs first", [][2]string{{"b", "-> x/../../y"}}, "outside of the tree"},
		{"a link that climbs from where another one leads", [][2]string{{"a/b/c", "-> ../.."}, {"x", "-> a/b/c/../passwd"}}, "can only be at its beginning"},
		{"an absolute link", [][2]string{{"a", "-> /etc/passwd"}}, "not a relative path"},
		{"a link to nothing", [][2]string{{"a", "-> "}}, "not a relative path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := tree.NewWriter(&bytes.Buffer{})
			var err error
			for _, f := range tt.files {
				if err = add(w, f[0], f[1]); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want one that says %q", err, tt.want)
			}
		})
	}
	t.Run("a size that lies", func(t *testing.T) {
		t.Parallel()
		for _, size := range []int64{2, 4} {
			w := tree.NewWriter(&bytes.Buffer{})
			if err := w.AddFile("a", false, size, strings.NewReader("abc")); err == nil {
				t.Errorf("three bytes passed for %d", size)
			}
		}
	})
	t.Run("no files at all", func(t *testing.T) {
		t.Parallel()
		if _, err := tree.NewWriter(&bytes.Buffer{}).Close(); err == nil {
			t.Error("an empty pack has a digest")
		}
	})
	t.Run("more than the limit, before anything is written", func(t *testing.T) {
		t.Parallel()
		w := tree.NewWriter(&bytes.Buffer{})
		if err := w.AddFile("a", false, tree.MaxSize+1, strings.NewReader("")); !errors.Is(err, tree.ErrLimit) {
			t.Errorf("the error is %v, want ErrLimit", err)
		}
	})
}

// FuzzExtract looks for a pack that writes outside of its folder.
func FuzzExtract(f *testing.F) {
	for _, h := range []tar.Header{
		{Name: "../x", Typeflag: tar.TypeReg}, {Name: "a", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "a/b", Typeflag: tar.TypeReg},
		{Name: "dev", Typeflag: tar.TypeChar}, {Name: "hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
	} {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if err := w.WriteHeader(&h); err == nil {
			_ = w.Close()
			f.Add(out.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		m, err := tree.Extract(bytes.NewReader(data), "sha256:"+strings.Repeat("0", 64), filepath.Join(parent, "out"), "")
		if err == nil {
			t.Fatalf("a pack has an impossible digest: %v", m.Paths())
		}
		entries, err := os.ReadDir(parent)
		if err != nil || len(entries) != 0 {
			t.Fatalf("left behind: %v (%v)", entries, err)
		}
	})
}
