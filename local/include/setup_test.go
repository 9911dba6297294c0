package include_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/git"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// rules are the sources of a user: a client that trusts the servers of the test, other places for names, and what is demanded.
type rules struct {
	client *http.Client
	places map[string]string // the beginning of a name, and what stands for it
	deny   string
	trust  source.Trust
}

func (r *rules) Apply(at *source.Location) (source.Trust, error) {
	if r.deny != "" && strings.HasPrefix(at.Name, r.deny) {
		return source.Trust{}, &source.DeniedError{What: at.Name, Why: "your sources deny it"}
	}
	at.Access.HTTP = r.client
	for from, to := range r.places {
		if rest, ok := strings.CutPrefix(at.Name, from); ok {
			at.URL = to + rest
		}
	}
	return r.trust, nil
}

// world is a project, a cache, and a server of repositories.
type world struct {
	t     *testing.T
	dir   string // of the project
	repos string
	host  string // of the server
	o     include.Options
	http  *sourcetest.GitHTTP
}

// newWorld makes a project without a repository, whose server is nowhere.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: filepath.Join(dir, "project"), repos: filepath.Join(dir, "repos")}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := repository.Open(t.Context(), w.dir, []string{"PATH=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	r.Project = "group/project"
	w.host = r.Server.FQDN()
	store := cache.New(filepath.Join(dir, "cache"))
	w.o = include.Options{
		Repository: r, Cache: store, Git: &git.Fetcher{Cache: store}, Rules: &rules{}, LockFile: filepath.Join(w.dir, ".rung", include.LockName),
		Policy: download.Policy{Attempts: 1, FirstWait: time.Millisecond}, Env: []string{"PATH=" + dir},
	}
	t.Cleanup(func() { _ = cache.RemoveTree(filepath.Join(dir, "cache")) })
	return w
}

// serve starts the server of the project's remote, over TLS.
func (w *world) serve(o sourcetest.GitOptions) *world {
	w.t.Helper()
	if _, err := sourcetest.GitProgram(); err != nil {
		w.t.Skipf("needs git: %v", err)
	}
	if err := os.MkdirAll(w.repos, 0o755); err != nil {
		w.t.Fatal(err)
	}
	o.Repos, o.TLS = w.repos, true
	s, err := sourcetest.StartGitHTTP(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	w.http = s
	w.host = strings.TrimPrefix(s.URL, "https://")
	host, port, _ := strings.Cut(w.host, ":")
	r := w.o.Repository
	r.Server = repository.Server{Protocol: "https", Host: host, Port: port, SSHHost: host, SSHPort: "22"}
	r.Remote, r.RemoteURL = "origin", s.URL+"/group/project.git"
	w.o.Rules = &rules{client: s.Client}
	return w
}

// push commits files to the main branch of a project on the server.
func (w *world) push(project string, content map[string]string) (*sourcetest.GitRepo, string) {
	w.t.Helper()
	dir := filepath.Join(w.repos, filepath.FromSlash(project)+".git")
	r := &sourcetest.GitRepo{Dir: dir}
	if _, err := os.Stat(dir); err != nil {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if r, err = sourcetest.NewGitRepo(dir); err != nil {
			w.t.Fatal(err)
		}
	}
	all := map[string]sourcetest.GitFile{}
	for name, text := range content {
		all[name] = sourcetest.GitFile{Content: text}
	}
	commit, err := r.Push("main", "a commit", all)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, commit
}

func (w *world) tag(r *sourcetest.GitRepo, commit string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := r.Set("refs/tags/"+name, commit); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) write(name, content string) {
	w.t.Helper()
	write(w.t, filepath.Join(w.dir, filepath.FromSlash(name)), content)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// loader makes a new one, as a new run would.
func (w *world) loader(change ...func(*include.Options)) *include.Loader {
	w.t.Helper()
	o := w.o
	for _, f := range change {
		f(&o)
	}
	l, err := include.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func offline(o *include.Options)     { o.Offline = true }
func refresh(o *include.Options)     { o.Refresh = true }
func withoutLock(o *include.Options) { o.LockFile = "" }

// load loads a file that is there.
func (w *world) load(l *include.Loader, place config.Place) config.File {
	w.t.Helper()
	f, err := l.Load(context.Background(), place)
	if err != nil {
		w.t.Fatalf("%s: %v", place, err)
	}
	return f
}

// fails loads a file that cannot be loaded, and returns the error's text, which has to hold every part.
func (w *world) fails(l *include.Loader, place config.Place, parts ...string) error {
	w.t.Helper()
	f, err := l.Load(context.Background(), place)
	if err == nil {
		w.t.Fatalf("%s: no error, but %q", place, f.Data)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			w.t.Errorf("%s: error = %v; want %q in it", place, err, part)
		}
	}
	return err
}

func (w *world) save(l *include.Loader) {
	w.t.Helper()
	if err := l.Save(); err != nil {
		w.t.Fatal(err)
	}
}

func project(name, ref, path string) config.Place {
	return config.Place{Kind: config.Project, Project: name, Ref: ref, Path: path}
}

func component(text string) config.Place {
	return config.Place{Kind: config.CatalogComponent, Path: text}
}
