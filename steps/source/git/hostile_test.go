package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// packOf makes a pack of objects that are given as type, size to claim and content.
func packOf(objects ...packed) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK"), 2)
	out = binary.BigEndian.AppendUint32(out, uint32(len(objects)))
	for _, o := range objects {
		size := uint64(len(o.content))
		if o.claims != 0 {
			size = o.claims
		}
		first := byte(o.typ)<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			out = append(out, first|0x80)
			first = byte(size & 127)
		}
		out = append(out, first)
		out = append(out, o.base...)
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, _ = w.Write(o.content)
		_ = w.Close()
		out = append(out, z.Bytes()...)
	}
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

type packed struct {
	typ     int // 1 commit, 2 tree, 3 blob, 7 delta
	content []byte
	claims  uint64
	base    []byte // of a delta
}

func nameOf(typ string, content []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", typ, len(content)), content...))
	return hex.EncodeToString(sum[:])
}

// lyingServer offers commits as it likes and sends a pack, whatever is asked for.
func lyingServer(t *testing.T, tip string, pack []byte) string {
	return packServer(t, tip, "side-band-64k shallow ofs-delta thin-pack", pack)
}

// packServer has the capabilities, as far as they change how a pack is sent.
func packServer(t *testing.T, tip, capabilities string, pack []byte) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", refsType)
			out := append(appendPacket(nil, "# service=git-upload-pack\n"), flushPacket...)
			out = appendPacket(out, tip+" refs/heads/main\x00"+capabilities+"\n")
			_, _ = w.Write(append(out, flushPacket...))
			return
		}
		w.Header().Set("Content-Type", packType)
		var out []byte
		if strings.Contains(capabilities, "shallow") {
			out = append(appendPacket(nil, "shallow "+tip), flushPacket...)
		}
		out = appendPacket(out, "NAK\n")
		if !strings.Contains(capabilities, "side-band-64k") {
			_, _ = w.Write(append(out, pack...))
			return
		}
		for rest := pack; len(rest) > 0; {
			n := min(len(rest), 60000)
			out = appendPacket(out, "\x01"+string(rest[:n]))
			rest = rest[n:]
		}
		_, _ = w.Write(append(out, flushPacket...))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/project.git"
}

func TestLyingServers(t *testing.T) {
	blob := []byte("content")
	tree := append([]byte("100644 step.yml\x00"), unhex(nameOf("blob", blob))...)
	commit := []byte("tree " + nameOf("tree", tree) + "\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nm\n")
	good := nameOf("commit", commit)
	other := []byte("tree " + nameOf("tree", tree) + "\nauthor b <b> 0 +0000\ncommitter b <b> 0 +0000\n\nm\n")

	t.Run("this test's server can tell the truth", func(t *testing.T) {
		url := lyingServer(t, good, packOf(packed{typ: 1, content: commit}, packed{typ: 2, content: tree}, packed{typ: 3, content: blob}))
		if got, err := load(t, newFetcher(t), location(url, "main")); err != nil || got["step.yml"] != "content" {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("a server of the oldest kind is understood", func(t *testing.T) {
		url := packServer(t, good, "", packOf(packed{typ: 1, content: commit}, packed{typ: 2, content: tree}, packed{typ: 3, content: blob}))
		if got, err := load(t, newFetcher(t), location(url, "main")); err != nil || got["step.yml"] != "content" {
			t.Errorf("got %v, %v", got, err)
		}
	})
	bomb := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(blob))), 1<<40)
	for _, c := range []struct {
		name, want string
		pack       []byte
	}{
		{"another commit", "is missing", packOf(packed{typ: 1, content: other}, packed{typ: 2, content: tree}, packed{typ: 3, content: blob})},
		{"a commit without its tree", "is missing", packOf(packed{typ: 1, content: commit})},
		{"a tree without its file", "is missing", packOf(packed{typ: 1, content: commit}, packed{typ: 2, content: tree})},
		{"another file", "is missing", packOf(packed{typ: 1, content: commit}, packed{typ: 2, content: tree}, packed{typ: 3, content: []byte("evil")})},
		{"no objects", "is missing", packOf()},
		{"nothing", "the server sent nothing", nil},
		{"what is not a pack", "the server sent nothing", []byte("<html>no pack, and long enough to hold a hash</html>")},
		{"a pack with a wrong hash", "is damaged", append(packOf(packed{typ: 1, content: commit}), 0)},
		{"more bytes than an object says", "is damaged", packOf(packed{typ: 3, content: blob, claims: 2})},
		{"a file of terabytes", "larger than what a component may be", packOf(packed{typ: 3, content: blob, claims: 1 << 42})},
		{"a difference that makes terabytes", "larger than what a component may be", packOf(packed{typ: 7, content: bomb, base: unhex(good)})},
		{"a difference to what is not there", "object not found", packOf(packed{typ: 7, content: []byte{1, 1, 1, 'x'}, base: unhex(nameOf("blob", nil))})},
	} {
		t.Run("a server that sends "+c.name+" gets nowhere", func(t *testing.T) {
			_, err := load(t, newFetcher(t), location(lyingServer(t, good, c.pack), "main"))
			var denied *source.DeniedError
			var failed *source.FetchError
			if !errors.As(err, &denied) && !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}

	for name, c := range map[string]struct {
		typ, body, want string
		code            int
	}{
		"a web page":                     {"text/html; charset=utf-8", "<html>", "answers with a web page", 200},
		"a page to sign in":              {"text/html", "<html>", "203", 203},
		"Git's old way":                  {"text/plain", good + "\trefs/heads/main\n", "plain file", 200},
		"something else":                 {"application/json", "{}", `answers with "application/json"`, 200},
		"what is not a protocol":         {refsType, "zzzz", "not Git's protocol", 200},
		"half of an answer":              {refsType, "001e# service=git-upload-pack\n0000003d" + good, "unexpected EOF", 200},
		"names of SHA-256":               {refsType, "001e# service=git-upload-pack\n00000054" + strings.Repeat("ab", 32) + " refs/heads/main", "SHA-256", 200},
		"an error, with control letters": {refsType, "001e# service=git-upload-pack\n0000001bERR no\x1b[31m such thing!", `the server says "no [31m such thing!"`, 200},
		"that it may not":                {"", "", "403", 403},
		"that it is broken":              {"", "", "500", 500},
	} {
		t.Run("a server that answers with "+name, func(t *testing.T) {
			var asked atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", c.typ)
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			_, err := newFetcher(t).Resolve(t.Context(), location(s.URL+"/project.git", "main"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if again := c.code == 500 || name == "half of an answer"; again != (asked.Load() == attempts) {
				t.Errorf("it was asked %d times", asked.Load())
			}
		})
	}
}

func unhex(text string) []byte {
	data, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return data
}

func TestBrokenConnections(t *testing.T) {
	broken := func(t *testing.T, times int32) (*sourcetest.GitHTTP, *atomic.Int32) {
		repos := t.TempDir()
		newRepo(t, repos, "project").push("main", files{"step.yml": strings.Repeat("text ", 1000), "other": "1"})
		var posts atomic.Int32
		s := serve(t, sourcetest.GitOptions{Repos: repos, Handle: func(w http.ResponseWriter, r *http.Request, serve http.Handler) {
			if r.Method != http.MethodPost || posts.Add(1) > times {
				serve.ServeHTTP(w, r)
				return
			}
			whole := httptest.NewRecorder()
			serve.ServeHTTP(whole, r)
			w.Header().Set("Content-Type", packType)
			w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
			_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}})
		return s, &posts
	}
	t.Run("a host that goes down in the middle is tried again", func(t *testing.T) {
		s, posts := broken(t, 2)
		got, err := load(t, newFetcher(t), location(s.URL+"/project.git", "main"))
		if err != nil || got["other"] != "1" || posts.Load() != 3 {
			t.Errorf("got %v after %d attempts, %v", got, posts.Load(), err)
		}
	})
	t.Run("and given up after three times, with nothing left behind", func(t *testing.T) {
		s, posts := broken(t, 100)
		f, at := newFetcher(t), location(s.URL+"/project.git", "main")
		_, err := load(t, f, at)
		var failed *source.FetchError
		if !errors.As(err, &failed) || posts.Load() != attempts {
			t.Errorf("after %d attempts, got %v", posts.Load(), err)
		}
		dir, err := f.Cache.Mirror(s.URL + "/project.git")
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, packsDir)); err != nil || len(left) != 0 {
			t.Errorf("there are %v, %v", left, err)
		}
	})
}

func TestDamagedMirrors(t *testing.T) {
	damage := map[string]func(t *testing.T, dir string){
		"a pack that was changed": func(t *testing.T, dir string) {
			changeFiles(t, filepath.Join(dir, packsDir, "*.pack"), func(text []byte) []byte {
				text[len(text)/2] ^= 0xff
				return text
			})
		},
		"a pack that was cut": func(t *testing.T, dir string) {
			changeFiles(t, filepath.Join(dir, packsDir, "*.pack"), func(text []byte) []byte { return text[:len(text)/2] })
		},
		"an index that was cut": func(t *testing.T, dir string) {
			changeFiles(t, filepath.Join(dir, packsDir, "*.idx"), func(text []byte) []byte { return text[:len(text)/2] })
		},
		"no packs": func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, packsDir)); err != nil {
				t.Fatal(err)
			}
		},
		"a file that was exchanged": func(t *testing.T, dir string) {
			// A loose object with the file's name and another content is found before the pack.
			name := nameOf("blob", []byte("good"))
			var z bytes.Buffer
			w := zlib.NewWriter(&z)
			_, _ = w.Write([]byte("blob 4\x00evil"))
			_ = w.Close()
			folder := filepath.Join(dir, objectsDir, name[:2])
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name[2:]), z.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, packsDir)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, change := range damage {
		for _, rev := range []string{"v1", "v2"} {
			t.Run("a mirror with "+name+" is made again for "+rev, func(t *testing.T) {
				repos := t.TempDir()
				r := newRepo(t, repos, "project")
				r.set("refs/tags/v1", r.push("main", files{"step.yml": "good", "text": strings.Repeat("0123456789 ", 500)}))
				r.set("refs/tags/v2", r.push("main", files{"step.yml": "good", "text": strings.Repeat("0123456789 ", 501)}))
				s := serve(t, sourcetest.GitOptions{Repos: repos})
				f := newFetcher(t)
				if _, err := load(t, f, location(s.URL+"/project.git", "v1")); err != nil {
					t.Fatal(err)
				}
				dir, err := f.Cache.Mirror(s.URL + "/project.git")
				if err != nil {
					t.Fatal(err)
				}
				change(t, dir)
				got, err := load(t, f, location(s.URL+"/project.git", rev))
				if err != nil || got["step.yml"] != "good" {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
	}

	t.Run("what a killed process left is removed", func(t *testing.T) {
		repos := t.TempDir()
		newRepo(t, repos, "project").push("main", files{"step.yml": "good"})
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		f := newFetcher(t)
		dir, err := f.Cache.Mirror(s.URL + "/project.git")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, packsDir), 0o700); err != nil {
			t.Fatal(err)
		}
		for range 2 { // in a mirror that has nothing yet, and in one that is used
			for _, half := range []string{temporaryPrefix + "1", "pack-" + strings.Repeat("12", 20) + ".idx"} {
				if err := os.WriteFile(filepath.Join(dir, packsDir, half), []byte("half"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := load(t, f, location(s.URL+"/project.git", "main")); err != nil || got["step.yml"] != "good" {
				t.Errorf("got %v, %v", got, err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, packsDir, "tmp_*")); len(left) != 0 {
			t.Errorf("there is still %v", left)
		}
	})

	t.Run("a local repository with an exchanged file is an error", func(t *testing.T) {
		repos := t.TempDir()
		r := newRepo(t, repos, "project")
		r.push("main", files{"step.yml": "good"})
		good := nameOf("blob", []byte("good"))
		evil := r.must(r.Object("blob", []byte("evil")))
		text, err := os.ReadFile(filepath.Join(r.Dir, "objects", evil[:2], evil[2:]))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.Dir, "objects", good[:2], good[2:]), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = load(t, newFetcher(t), location(r.Dir, "main"))
		if err == nil || !strings.Contains(err.Error(), "was changed") {
			t.Errorf("got %v", err)
		}
	})
}

func changeFiles(t *testing.T, pattern string, change func([]byte) []byte) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, change(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostileTrees(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"a folder above", "..", "has the element .."},
		{"itself", ".", "has the element ."},
		{"an absolute path", "/etc/passwd", "is not the name of a file"},
		{"a path", "a/../../b", "is not the name of a file"},
		{"no name", "", "is not the name of a file"},
		{"Git's folder", ".git", ".git folder"},
		{"Git's folder in capitals", ".GIT", ".git folder"},
		{"Git's folder as NTFS knows it", "GIT~1", ".git folder"},
		{"Git's folder with a dot that NTFS ignores", ".git.", ".git folder"},
		{"Git's folder with a space that NTFS ignores", ".git ", ".git folder"},
		{"Git's folder with a letter that HFS+ ignores", ".g\u200cit", ".git folder"},
		{"a backslash", `a\b`, "not every system"},
		{"a drive", "C:", "drive"},
		{"a line break", "a\nb", "control character"},
		{"a colour", "a\x1b[31m", "control character"},
		{"what is not UTF-8", "a\xff", "not UTF-8"},
	} {
		for _, folder := range []bool{false, true} {
			t.Run(fmt.Sprintf("a file named like %s is refused, folder: %v", c.name, folder), func(t *testing.T) {
				r := newRepo(t, t.TempDir(), "project")
				e := sourcetest.GitEntry{Mode: "100644", Name: c.file, Hash: r.must(r.Object("blob", []byte("x")))}
				if folder {
					e.Mode, e.Hash = "40000", r.must(r.Tree(sourcetest.GitEntry{Mode: "100644", Name: "f", Hash: e.Hash}))
				}
				pin := r.must(r.Commit(r.must(r.Tree(e)), "hostile"))
				_, err := fetched(t, newFetcher(t), location(r.Dir, pin), pin)
				var denied *source.DeniedError
				if !errors.As(err, &denied) || !strings.Contains(denied.Why, c.want) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	t.Run("the same name twice is refused", func(t *testing.T) {
		r := newRepo(t, t.TempDir(), "project")
		blob := r.must(r.Object("blob", []byte("x")))
		inner := r.must(r.Tree(sourcetest.GitEntry{Mode: "100644", Name: "f", Hash: blob}))
		root := r.must(r.Tree(sourcetest.GitEntry{Mode: "120000", Name: "a", Hash: blob}, sourcetest.GitEntry{Mode: "40000", Name: "a", Hash: inner}))
		pin := r.must(r.Commit(root, "hostile"))
		_, err := fetched(t, newFetcher(t), location(r.Dir, pin), pin)
		var denied *source.DeniedError
		if !errors.As(err, &denied) || !strings.Contains(err.Error(), "twice") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("folders that hold each other many times over are refused", func(t *testing.T) {
		repos := t.TempDir()
		r := newRepo(t, repos, "project")
		hash, mode := r.must(r.Object("blob", []byte("x"))), "100644"
		for range 10 {
			var entries []sourcetest.GitEntry
			for i := range 10 {
				entries = append(entries, sourcetest.GitEntry{Mode: mode, Name: fmt.Sprint(i), Hash: hash})
			}
			hash, mode = r.must(r.Tree(entries...)), "40000"
		}
		l, err := openLocal(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		nothing := func(string, entry) error { return nil }
		err = (&walk{objects: l.objects, visit: nothing}).tree(t.Context(), plumbing.NewHash(hash), "")
		if !errors.Is(err, tree.ErrLimit) || !strings.Contains(err.Error(), "more than 100000 files") {
			t.Errorf("got %v", err)
		}
		err = (&walk{objects: l.objects, visit: nothing, check: checkCheckedOut, limit: 1000, tooLarge: ErrTooLarge}).tree(t.Context(), plumbing.NewHash(hash), "")
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "more than 1000 files") {
			t.Errorf("a checkout has a limit of its own: %v", err)
		}
		if err := l.verify(t.Context(), plumbing.NewHash(hash), false); err != nil {
			t.Errorf("to verify it takes ten steps: %v", err)
		}
	})
	t.Run("folders without end are refused", func(t *testing.T) {
		r := newRepo(t, t.TempDir(), "project")
		hash, mode := r.must(r.Object("blob", []byte("x"))), "100644"
		for range 70 {
			hash, mode = r.must(r.Tree(sourcetest.GitEntry{Mode: mode, Name: "a", Hash: hash})), "40000"
		}
		r.set("refs/heads/main", r.must(r.Commit(hash, "deep")))
		_, err := load(t, newFetcher(t), location(r.Dir, "main"))
		if err == nil || !strings.Contains(err.Error(), "folders deep") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhatAServerSaysShowsNoPartOfASecret(t *testing.T) {
	masktest.Shortens(t, maxRemoteText, clean)
}
