package git

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// files are what a repository holds: content by path.
type files map[string]string

func (f files) git() map[string]sourcetest.GitFile {
	all := map[string]sourcetest.GitFile{}
	for name, content := range f {
		all[name] = sourcetest.GitFile{Content: content}
	}
	return all
}

// repo is a repository of a test; its methods end the test where they fail.
type repo struct {
	*sourcetest.GitRepo
	t testing.TB
}

// newRepo makes the repository name.git in a folder.
func newRepo(t testing.TB, folder, name string) *repo {
	t.Helper()
	r, err := sourcetest.NewGitRepo(filepath.Join(folder, name+".git"))
	if err != nil {
		t.Fatal(err)
	}
	return &repo{r, t}
}

func (r *repo) must(hash string, err error) string {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return hash
}

func (r *repo) push(branch string, f files) string {
	r.t.Helper()
	return r.must(r.Push(branch, "a commit", f.git()))
}

func (r *repo) set(ref, hash string) {
	r.t.Helper()
	r.must("", r.Set(ref, hash))
}

func newFetcher(t testing.TB) *Fetcher {
	return &Fetcher{Cache: cache.New(filepath.Join(t.TempDir(), "cache")), delay: time.Millisecond, idle: 20 * time.Second}
}

func location(url, rev string) *source.Location {
	return &source.Location{Kind: "git", Name: source.WithoutUserinfo(url), URL: url, Rev: rev, Access: source.Access{HTTP: http.DefaultClient}}
}

// fetched is a package on disk: content by path, with the prefix "x " for what can be executed and "l " for links.
func fetched(t testing.TB, f *Fetcher, at *source.Location, pin string) (files, error) {
	t.Helper()
	return fetchedWith(t, t.Context(), f, at, pin)
}

func fetchedWith(t testing.TB, ctx context.Context, f *Fetcher, at *source.Location, pin string) (files, error) {
	t.Helper()
	var pack bytes.Buffer
	w := tree.NewWriter(&pack)
	if err := f.Fetch(ctx, at, pin, w); err != nil {
		return nil, err
	}
	digest, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := tree.Extract(&pack, digest, dir, ""); err != nil {
		t.Fatal(err)
	}
	got := files{}
	err = filepath.WalkDir(dir, func(full string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(full, dir+string(filepath.Separator)))
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			got["l "+name], err = os.Readlink(full)
			return err
		}
		if info.Mode()&0o111 != 0 {
			name = "x " + name
		}
		text, err := os.ReadFile(full)
		got[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, nil
}

// load resolves and fetches.
func load(t testing.TB, f *Fetcher, at *source.Location) (files, error) {
	t.Helper()
	pin, err := f.Resolve(t.Context(), at)
	if err != nil {
		return nil, err
	}
	return fetched(t, f, at, pin)
}

// serve starts a server for the repositories in a folder, or skips the test.
func serve(t testing.TB, o sourcetest.GitOptions) *sourcetest.GitHTTP {
	t.Helper()
	needsGit(t)
	s, err := sourcetest.StartGitHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func needsGit(t testing.TB) {
	t.Helper()
	if _, err := sourcetest.GitProgram(); err != nil {
		t.Skip("needs git to serve repositories: " + err.Error())
	}
}

const allowAny = "uploadpack.allowAnySHA1InWant=true"
