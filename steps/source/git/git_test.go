package git

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// servers are the ways to a folder of repositories.
var servers = map[string]func(t *testing.T, repos string) func(rev string) *source.Location{
	"file": func(t *testing.T, repos string) func(string) *source.Location {
		return func(rev string) *source.Location {
			return location("file://"+filepath.ToSlash(repos)+"/project.git", rev)
		}
	},
	"path": func(t *testing.T, repos string) func(string) *source.Location {
		return func(rev string) *source.Location { return location(filepath.Join(repos, "project.git"), rev) }
	},
	"http": func(t *testing.T, repos string) func(string) *source.Location {
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		return func(rev string) *source.Location { return location(s.URL+"/project.git", rev) }
	},
	"https": func(t *testing.T, repos string) func(string) *source.Location {
		s := serve(t, sourcetest.GitOptions{Repos: repos, TLS: true, Config: []string{allowAny, "uploadpack.allowFilter=true"}})
		return func(rev string) *source.Location {
			at := location(s.URL+"/project.git", rev)
			at.Access.HTTP = s.Client
			return at
		}
	},
	"ssh": func(t *testing.T, repos string) func(string) *source.Location {
		_, access := serveSSH(t, repos)
		return func(rev string) *source.Location {
			at := location("ssh://git@"+access.addr+"/project.git", rev)
			at.Access.SSHKey, at.Access.KnownHosts = access.key, []string{access.knownHosts}
			return at
		}
	},
}

type sshAccess struct{ addr, key, knownHosts string }

// writeKey makes a key pair in a folder.
func writeKey(t testing.TB, dir, name string) (path string, public ssh.PublicKey) {
	t.Helper()
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if public, err = ssh.NewPublicKey(pub); err != nil {
		t.Fatal(err)
	}
	return path, public
}

func serveSSH(t testing.TB, repos string) (*sourcetest.GitSSH, sshAccess) {
	t.Helper()
	needsGit(t)
	dir := t.TempDir()
	key, public := writeKey(t, dir, "key")
	s, err := sourcetest.StartGitSSH(sourcetest.GitOptions{Repos: repos, Keys: []ssh.PublicKey{public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	known := filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(known, []byte(s.KnownHosts()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, sshAccess{s.Addr, key, known}
}

func TestRevisions(t *testing.T) {
	for name, start := range servers {
		t.Run("C115 a repository over "+name, func(t *testing.T) {
			repos := t.TempDir()
			r := newRepo(t, repos, "project")
			first := r.push("main", files{"step.yml": "first", "steps/a/step.yml": "a"})
			second := r.push("main", files{"step.yml": "second"})
			r.set("refs/heads/other", first)
			other := r.push("other", files{"step.yml": "other"})
			r.set("refs/heads/feature/x", first)
			r.set("refs/tags/light", first)
			r.must(r.Annotate("v1.0.0", "commit", first))
			r.must(r.Annotate("both", "commit", first))
			r.set("refs/heads/both", second)
			nested := r.must(r.Annotate("inner", "commit", second))
			r.must(r.Annotate("outer", "tag", nested))
			r.set("refs/merge-requests/1/head", other)
			at := start(t, repos)
			for _, c := range []struct{ name, rev, commit, text string }{
				{"the default branch", "HEAD", second, "second"},
				{"a branch", "main", second, "second"},
				{"another branch", "other", other, "other"},
				{"a branch with a slash", "feature/x", first, "first"},
				{"a full commit at a tip", second, second, "second"},
				{"a full commit in upper case", strings.ToUpper(second), second, "second"},
				{"a full commit in the history", first, first, "first"},
				{"a short commit at a tip", second[:8], second, "second"},
				{"a short commit of seven digits", second[:7], second, "second"},
				{"a lightweight tag", "light", first, "first"},
				{"an annotated tag", "v1.0.0", first, "first"},
				{"a tag of a tag", "outer", second, "second"},
				{"a tag before a branch of the same name", "both", first, "first"},
				{"a branch by its full name", "refs/heads/both", second, "second"},
				{"a tag by its full name", "refs/tags/v1.0.0", first, "first"},
				{"any other ref", "refs/merge-requests/1/head", other, "other"},
			} {
				t.Run(c.name, func(t *testing.T) {
					f := newFetcher(t)
					pin, err := f.Resolve(t.Context(), at(c.rev))
					if err != nil {
						t.Fatal(err)
					}
					if pin != c.commit {
						t.Errorf("resolved to %s, want %s", pin, c.commit)
					}
					got, err := fetched(t, f, at(c.rev), pin)
					if err != nil {
						t.Fatal(err)
					}
					if got["step.yml"] != c.text {
						t.Errorf("got %v, want %q", got, c.text)
					}
				})
			}
			t.Run("a short commit in the history", func(t *testing.T) {
				r.push("main", files{"step.yml": "third"})
				for _, ref := range []string{"refs/heads/both", "refs/tags/inner", "refs/tags/outer"} { // nor does anything else end there
					r.set(ref, first)
				}
				f := newFetcher(t)
				pin, err := f.Resolve(t.Context(), at(second[:9]))
				if err != nil || pin != second {
					t.Fatalf("got %s, %v", pin, err)
				}
				if got, err := fetched(t, f, at(second[:9]), pin); err != nil || got["step.yml"] != "second" {
					t.Errorf("got %v, %v", got, err)
				}
			})
			t.Run("C117 an unknown revision", func(t *testing.T) {
				_, err := newFetcher(t).Resolve(t.Context(), at("mian"))
				var missing *source.NotFoundError
				if !errors.As(err, &missing) {
					t.Fatalf("got %v", err)
				}
				for _, want := range []string{`@mian`, `did you mean "main"?`, "a tag (there are 5)", "a branch (there are 4)"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			})
			t.Run("an unknown full commit", func(t *testing.T) {
				_, err := fetched(t, newFetcher(t), at("main"), strings.Repeat("1234", 10))
				var missing *source.NotFoundError
				if !errors.As(err, &missing) {
					t.Fatalf("got %v", err)
				}
			})
			t.Run("an unknown short commit", func(t *testing.T) {
				_, err := newFetcher(t).Resolve(t.Context(), at("1234567"))
				var missing *source.NotFoundError
				if !errors.As(err, &missing) {
					t.Fatalf("got %v", err)
				}
			})
			t.Run("an unknown repository", func(t *testing.T) {
				nowhere := at("main")
				nowhere.URL = strings.Replace(nowhere.URL, "project", "nowhere", 1)
				_, err := newFetcher(t).Resolve(t.Context(), nowhere)
				var missing *source.NotFoundError
				if !errors.As(err, &missing) {
					t.Fatalf("got %v", err)
				}
			})
			t.Run("an empty repository", func(t *testing.T) {
				newRepo(t, repos, "empty")
				empty := at("main")
				empty.URL = strings.Replace(empty.URL, "project", "empty", 1)
				_, err := newFetcher(t).Resolve(t.Context(), empty)
				var missing *source.NotFoundError
				if !errors.As(err, &missing) {
					t.Fatalf("got %v", err)
				}
			})
			t.Run("a tag that is not about a commit", func(t *testing.T) {
				blob := r.must(r.Object("blob", []byte("text")))
				r.set("refs/tags/blob", blob)
				_, err := load(t, newFetcher(t), at("blob"))
				var missing *source.NotFoundError
				if !errors.As(err, &missing) || !strings.Contains(err.Error(), "not a commit, but a blob") {
					t.Fatalf("got %v", err)
				}
			})
		})
	}
}

func TestWhatAPackageHolds(t *testing.T) {
	for name, start := range servers {
		t.Run("C118 folders, modes and links over "+name, func(t *testing.T) {
			repos := t.TempDir()
			r := newRepo(t, repos, "project")
			r.must(r.Push("main", "all", map[string]sourcetest.GitFile{
				"README.md":          {Content: "about"},
				"steps/a/step.yml":   {Content: "a"},
				"steps/a/run.sh":     {Mode: "100755", Content: "#!/bin/sh\n"},
				"steps/a/old":        {Mode: "100664", Content: "group may write"},
				"steps/b/step.yml":   {Mode: "120000", Content: "../a/step.yml"},
				"steps/b/outside":    {Mode: "120000", Content: "../../../etc/passwd"},
				"absolute":           {Mode: "120000", Content: "/etc/passwd"},
				"vendor/other":       {Mode: "160000", Content: strings.Repeat("12", 20)},
				".gitattributes":     {Content: "* text eol=crlf export-ignore filter=evil\n"},
				"empty":              {},
				"big.bin":            {Content: strings.Repeat("0123456789abcdef", 1<<16)},
				"lfs.bin":            {Content: "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"},
				"steps/ümlaut/ß.yml": {Content: "names"},
			}))
			var left []event.Progress
			ctx := source.WithProgress(t.Context(), func(p event.Progress) {
				if strings.Contains(p.Title, "left out") {
					left = append(left, p)
				}
			})
			f, at := newFetcher(t), start(t, repos)("main")
			pin, err := f.Resolve(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fetchedWith(t, ctx, f, at, pin)
			if err != nil {
				t.Fatal(err)
			}
			want := files{
				"README.md": "about", "steps/a/step.yml": "a", "x steps/a/run.sh": "#!/bin/sh\n", "steps/a/old": "group may write",
				"l steps/b/step.yml": filepath.FromSlash("../a/step.yml"), ".gitattributes": "* text eol=crlf export-ignore filter=evil\n", "empty": "",
				"big.bin": strings.Repeat("0123456789abcdef", 1<<16), "lfs.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
				"steps/ümlaut/ß.yml": "names",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if len(left) != 1 || !left[0].Done || !strings.HasSuffix(left[0].Title, "because they lead outside: absolute, steps/b/outside") {
				t.Errorf("what was left out was reported as %+v", left)
			}
		})
	}
}

func TestMirror(t *testing.T) {
	t.Run("C116 a second version costs only what is new", func(t *testing.T) {
		repos := t.TempDir()
		r := newRepo(t, repos, "project")
		large := make([]byte, 1<<20)
		_, _ = rand.Read(large)
		text := fmt.Sprintf("%x", large[:200<<10]) // of which a server sends what changed only
		r.set("refs/tags/v1", r.push("main", files{"large": string(large), "step.yml": "one", "a/b/c": "same", "text": text}))
		r.set("refs/tags/v2", r.push("main", files{"large": string(large), "step.yml": "two", "a/b/c": "same", "text": text + "more"}))
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		f := newFetcher(t)
		sent := func(rev, want string) (packs int, bytes int64) {
			got, err := load(t, f, location(s.URL+"/project.git", rev))
			if err != nil {
				t.Fatal(err)
			}
			if got["step.yml"] != want || got["large"] != string(large) || got["a/b/c"] != "same" || !strings.HasPrefix(got["text"], text) {
				t.Errorf("%s is not what was committed", rev)
			}
			for _, request := range s.Requests() {
				if request.Method == http.MethodPost {
					packs++
				}
				bytes += request.Sent
			}
			return packs, bytes
		}
		if packs, size := sent("v1", "one"); packs != 1 || size < 1<<20 {
			t.Errorf("the first version: %d packs, %d bytes", packs, size)
		}
		if packs, size := sent("v2", "two"); packs != 1 || size > 8<<10 {
			t.Errorf("the second version: %d packs, %d bytes", packs, size)
		}
		if packs, _ := sent("v1", "one"); packs != 0 {
			t.Errorf("the first version again: %d packs", packs)
		}
	})

	t.Run("C117 an unknown version asks once", func(t *testing.T) {
		repos := t.TempDir()
		newRepo(t, repos, "project").push("main", files{"step.yml": "one"})
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		if _, err := newFetcher(t).Resolve(t.Context(), location(s.URL+"/project.git", "v9")); err == nil {
			t.Fatal("it was found")
		}
		if got := s.Requests(); len(got) != 1 {
			t.Errorf("the server was asked %v", got)
		}
	})

	t.Run("a full commit is resolved without asking anybody", func(t *testing.T) {
		want := strings.Repeat("ab", 20)
		pin, err := newFetcher(t).Resolve(t.Context(), location("https://127.0.0.1:1/project.git", want))
		if err != nil || pin != want {
			t.Errorf("got %q, %v", pin, err)
		}
	})

	t.Run("twenty at once fetch once", func(t *testing.T) {
		repos := t.TempDir()
		pin := newRepo(t, repos, "project").push("main", files{"step.yml": "one"})
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		f := newFetcher(t)
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				other := newFetcher(t) // as another process would
				other.Cache = f.Cache
				if got, err := fetched(t, other, location(s.URL+"/project.git", "main"), pin); err != nil || got["step.yml"] != "one" {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
		wait.Wait()
		if got := s.Requests(); len(got) != 2 {
			t.Errorf("the server was asked %v", got)
		}
	})

	t.Run("after the history was replaced, what is new is fetched", func(t *testing.T) {
		repos := t.TempDir()
		r := newRepo(t, repos, "project")
		base := r.push("main", files{"step.yml": "base"})
		old := r.push("main", files{"step.yml": "old", "kept": "kept"})
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		f := newFetcher(t)
		if _, err := load(t, f, location(s.URL+"/project.git", "main")); err != nil {
			t.Fatal(err)
		}
		r.set("refs/heads/main", base)
		replaced := r.push("main", files{"step.yml": "new", "kept": "kept"})
		if err := os.RemoveAll(filepath.Join(r.Dir, "objects", old[:2], old[2:])); err != nil { // as git gc would
			t.Fatal(err)
		}
		got, err := load(t, f, location(s.URL+"/project.git", "main"))
		if err != nil || got["step.yml"] != "new" || got["kept"] != "kept" {
			t.Errorf("%s: got %v, %v", replaced, got, err)
		}
	})

	t.Run("a commit that no ref leads to", func(t *testing.T) {
		repos := t.TempDir()
		r := newRepo(t, repos, "project")
		r.push("main", files{"step.yml": "main"})
		lost := r.must(r.Commit(r.must(r.Files(files{"step.yml": "lost"}.git())), "lost"))
		t.Run("is fetched where the server gives it out", func(t *testing.T) {
			s := serve(t, sourcetest.GitOptions{Repos: repos, Config: []string{allowAny}})
			if got, err := load(t, newFetcher(t), location(s.URL+"/project.git", lost)); err != nil || got["step.yml"] != "lost" {
				t.Errorf("got %v, %v", got, err)
			}
		})
		t.Run("is not found elsewhere", func(t *testing.T) {
			s := serve(t, sourcetest.GitOptions{Repos: repos})
			_, err := load(t, newFetcher(t), location(s.URL+"/project.git", lost))
			var missing *source.NotFoundError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), lost) {
				t.Errorf("got %v", err)
			}
		})
	})

	t.Run("a mirror that many versions went into is made again", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "mirror")
		if _, err := openMirror(dir); err != nil {
			t.Fatal(err)
		}
		for i := range 2*maxPacks + 1 {
			if err := os.WriteFile(filepath.Join(dir, packsDir, fmt.Sprintf("pack-%d.pack", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := openMirror(dir); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, packsDir)); err != nil || len(left) != 0 {
			t.Errorf("there are still %d files, %v", len(left), err)
		}
	})
}

func TestShortCommits(t *testing.T) {
	t.Run("one that could be several is an error that lists them", func(t *testing.T) {
		repos := t.TempDir()
		r := newRepo(t, repos, "project")
		var commits []string
		tree := r.must(r.Files(files{"step.yml": ""}.git()))
		for i := range 900 { // two of them begin with the same four digits
			commits = append(commits, r.must(r.Commit(tree, fmt.Sprint(i))))
		}
		slices.Sort(commits)
		for i := 1; i < len(commits); i++ {
			if commits[i][:4] == commits[i-1][:4] {
				l, err := openLocal(r.Dir)
				if err != nil {
					t.Fatal(err)
				}
				defer l.close()
				found, err := l.commits(commits[i][:4])
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err = onlyOne(commits[i][:4], found); err == nil || !strings.Contains(err.Error(), commits[i-1]+", "+commits[i]) {
					t.Errorf("got %v", err)
				}
				return
			}
		}
		t.Fatal("no two commits begin alike")
	})
	t.Run("fewer than seven digits are not a commit", func(t *testing.T) {
		repos := t.TempDir()
		pin := newRepo(t, repos, "project").push("main", files{"step.yml": ""})
		_, err := newFetcher(t).Resolve(t.Context(), location(filepath.Join(repos, "project.git"), pin[:6]))
		if err == nil || !strings.Contains(err.Error(), "at least 7 digits") {
			t.Errorf("got %v", err)
		}
	})
}

func TestProgress(t *testing.T) {
	repos := t.TempDir()
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large)
	newRepo(t, repos, "project").push("main", files{"large": string(large)})
	s := serve(t, sourcetest.GitOptions{Repos: repos})
	var all []event.Progress
	ctx := source.WithProgress(t.Context(), func(p event.Progress) { all = append(all, p) })
	f, at := newFetcher(t), location(s.URL+"/project.git", "main")
	pin, err := f.Resolve(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetchedWith(t, ctx, f, at, pin); err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	if len(all) < 3 || !last.Done || last.Unit != "bytes" || last.Current < 2<<20 || !strings.HasSuffix(last.Title, "/project@main") && !strings.HasSuffix(last.Title, "/project.git@main") {
		t.Errorf("reported %+v", all)
	}
}

func TestCancellation(t *testing.T) {
	repos := t.TempDir()
	newRepo(t, repos, "project").push("main", files{"step.yml": ""})
	hang := func(w http.ResponseWriter, r *http.Request, serve http.Handler) {
		w.Header().Set("Content-Type", refsType)
		_, _ = w.Write([]byte("001e# service=git-upload-pack\n0000"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	t.Run("a cancelled run does not wait for a server", func(t *testing.T) {
		s := serve(t, sourcetest.GitOptions{Repos: repos, Handle: hang})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("stopped by the user")) })
		_, err := newFetcher(t).Resolve(ctx, location(s.URL+"/project.git", "main"))
		if err == nil || err.Error() != "stopped by the user" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a server that says nothing any more is given up", func(t *testing.T) {
		s := serve(t, sourcetest.GitOptions{Repos: repos, Handle: hang})
		f := newFetcher(t)
		f.idle = time.Second // within which the server hears of it
		_, err := f.Resolve(t.Context(), location(s.URL+"/project.git", "main"))
		var failed *source.FetchError
		if !errors.As(err, &failed) || !errors.Is(err, errIdle) {
			t.Errorf("got %v", err)
		}
		if got := s.Requests(); len(got) != 1 {
			t.Errorf("the server was asked %v", got)
		}
	})
}
