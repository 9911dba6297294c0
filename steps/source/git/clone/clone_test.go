package clone

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/steps/source/sourcetest"
)

func TestRefspecs(t *testing.T) {
	a, b := plumbing.NewHash(strings.Repeat("a", 40)), plumbing.NewHash(strings.Repeat("b", 40))
	offered := map[string]plumbing.Hash{"HEAD": a, "refs/heads/main": a, "refs/heads/x/y": b, "refs/tags/v1": b, "refs/heads/../../../hooks/x": b, "refs/heads/x.lock": b, "refs/heads/a b": b}
	for _, test := range []struct {
		spec  string
		refs  []string
		wants int
		err   string
	}{
		{"+refs/heads/main:refs/remotes/origin/main", []string{"refs/remotes/origin/main"}, 1, ""},
		{"main", []string{"refs/remotes/origin/main"}, 1, ""},
		{"v1:refs/tags/v1", []string{"refs/tags/v1"}, 1, ""},
		{strings.Repeat("c", 40) + ":refs/pipelines/1", []string{"refs/pipelines/1"}, 1, ""},
		{"", nil, 1, ""},
		{"refs/heads/x/*:refs/z/*", []string{"refs/remotes/origin/x/y", "refs/z/y"}, 1, ""},
		{"refs/nothing/*:refs/z/*", nil, 0, ""},
		{"nowhere", nil, 0, "has no ref nowhere"},
		{"main:main", nil, 0, "not the full name"},
		{"main:refs/../x", nil, 0, "not the name of a ref"},
		{"^main", nil, 0, "leaves refs out"},
		{"refs/*:refs/x", nil, 0, "on one side only"},
	} {
		got, err := mapRefs([]string{test.spec}, offered)
		if err != nil || test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || test.err == "" {
				t.Errorf("%q: error %v", test.spec, err)
			}
			continue
		}
		if names := slices.Sorted(maps.Keys(got.refs)); !slices.Equal(names, test.refs) || len(got.wants) != test.wants {
			t.Errorf("%q: refs %q, %d objects", test.spec, names, len(got.wants))
		}
	}
	got, err := mapRefs([]string{"refs/heads/*:refs/remotes/origin/*"}, offered)
	if err != nil || len(got.refs) != 2 {
		t.Errorf("what is not the name of a ref is left out: %v, %v", got, err)
	}
}

// served clones from a server with one repository, "p".
func served(t *testing.T, o sourcetest.GitOptions) (*sourcetest.GitHTTP, *sourcetest.GitRepo) {
	t.Helper()
	o.Repos = t.TempDir()
	r, err := sourcetest.NewGitRepo(filepath.Join(o.Repos, "p"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := sourcetest.StartGitHTTP(o)
	if err != nil {
		t.Skipf("needs git: %v", err)
	}
	t.Cleanup(s.Close)
	return s, r
}

func TestCredentialsAreForOneServer(t *testing.T) {
	s, r := served(t, sourcetest.GitOptions{})
	if _, err := r.Push("main", "one", nil); err != nil {
		t.Fatal(err)
	}
	access := Access{User: "u", Password: "SECRET", Base: s.URL}
	var sent []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
		http.Redirect(w, r, s.URL+"/p/info/refs?service=git-upload-pack", http.StatusFound)
	}))
	defer elsewhere.Close()
	s.Requests()
	for _, url := range []string{elsewhere.URL + "/p", strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/p"} {
		c, err := Open(t.Context(), Options{Folder: t.TempDir(), URL: url, Access: access})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for _, request := range s.Requests() {
		if request.User != "" {
			t.Errorf("%s was sent the credentials", request.Path)
		}
	}
	if !slices.Equal(sent, []string{""}) {
		t.Errorf("another server was sent %q", sent)
	}
}

func TestNothingIsWrittenWhereSomethingIs(t *testing.T) {
	s, r := served(t, sourcetest.GitOptions{})
	commit, err := r.Push("main", "one", map[string]sourcetest.GitFile{"a/b": {Content: "evil"}, "l": {Mode: "120000", Content: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(folder, outside string) error{
		"a link to a folder":         func(folder, outside string) error { return os.Symlink(outside, filepath.Join(folder, "a")) },
		"a link inside":              func(folder, _ string) error { return os.Symlink(".git", filepath.Join(folder, "a")) },
		"a file in place of a link":  func(folder, _ string) error { return os.WriteFile(filepath.Join(folder, "l"), nil, 0o600) },
		"a link in place of another": func(folder, outside string) error { return os.Symlink(outside, filepath.Join(folder, "l")) },
		"a link in place of a file": func(folder, outside string) error {
			return errors.Join(os.Mkdir(filepath.Join(folder, "a"), 0o700), os.Symlink(filepath.Join(outside, "b"), filepath.Join(folder, "a", "b")))
		},
	} {
		folder, outside := t.TempDir(), t.TempDir()
		if err := leave(folder, outside); err != nil {
			t.Skipf("needs symbolic links: %v", err)
		}
		c, err := Open(t.Context(), Options{Folder: folder, URL: s.URL + "/p"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Fetch(t.Context(), Fetch{Refspecs: []string{"main"}}); err != nil {
			t.Fatal(err)
		}
		var refused *RefusedError
		if err := c.CheckOut(t.Context(), commit); !errors.As(err, &refused) || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("%s: error %v", name, err)
		}
		c.Close()
		for _, path := range []string{filepath.Join(outside, "b"), filepath.Join(folder, ".git", "b")} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s: it wrote %s", name, path)
			}
		}
	}
}

func TestACancelEndsACheckout(t *testing.T) {
	s, r := served(t, sourcetest.GitOptions{})
	commit, err := r.Push("main", "one", map[string]sourcetest.GitFile{"a": {}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), Options{Folder: t.TempDir(), URL: s.URL + "/p"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Fetch(t.Context(), Fetch{Refspecs: []string{"main"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.CheckOut(ctx, commit); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := c.Fetch(ctx, Fetch{Refspecs: []string{"main"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAServerThatDoesNotGiveOutCommits(t *testing.T) {
	s, r := served(t, sourcetest.GitOptions{}) // it gives out what its refs point to, and nothing else
	first, err := r.Push("main", "one", map[string]sourcetest.GitFile{"a": {Content: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Push("main", "two", map[string]sourcetest.GitFile{"a": {Content: "2"}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Fetch{{Refspecs: []string{"main"}, Depth: 1}, {Refspecs: []string{"main", first + ":refs/pipelines/1"}, Depth: 1}} {
		c, err := Open(t.Context(), Options{Folder: t.TempDir(), URL: s.URL + "/p"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Fetch(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Complete(t.Context(), first, f.Depth); err != nil || got != first {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := c.Complete(t.Context(), strings.Repeat("1", 40), f.Depth); !errors.Is(err, ErrNoCommit) {
			t.Errorf("error %v", err)
		}
		c.Close()
	}
}
