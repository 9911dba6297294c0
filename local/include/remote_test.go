package include_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// site is a web server over TLS.
type site struct {
	*httptest.Server
	asked atomic.Int64
	text  atomic.Value
}

func newSite(t *testing.T) *site {
	s := &site{}
	s.text.Store("one\n")
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		switch {
		case r.URL.Path == "/moved.yml":
			http.Redirect(w, r, "/a.yml", http.StatusFound)
		case r.URL.Path == "/circle.yml":
			http.Redirect(w, r, "/circle.yml", http.StatusFound)
		case r.URL.Path == "/plain.yml":
			http.Redirect(w, r, "http://"+r.Host+"/a.yml", http.StatusFound)
		case r.URL.Path == "/none.yml":
			http.NotFound(w, r)
		case r.URL.Path == "/broken.yml":
			http.Error(w, "no", http.StatusNotImplemented)
		case r.URL.Path == "/login.yml":
			fmt.Fprint(w, "\n<!DOCTYPE html>\n<html>")
		case r.URL.Path == "/large.yml":
			chunk := []byte(strings.Repeat("#", 1<<20))
			for range config.MaxFileSize>>20 + 1 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case r.URL.Path == "/private.yml":
			user, password, _ := r.BasicAuth()
			if user != "me" || password != "s3cr3t-passw0rd-of-me" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, "private\n")
		default:
			fmt.Fprint(w, s.text.Load())
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it, as some tests want
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func remote(url string) config.Place { return config.Place{Kind: config.Remote, Path: url} }

func TestRemote(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-passw0rd-of-me"
	newPair := func(t *testing.T) (*world, *site) {
		w, s := newWorld(t), newSite(t)
		w.o.Rules.(*rules).client = s.Client()
		return w, s
	}
	t.Run("a file, also where a redirect leads to it", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		for _, path := range []string{"/a.yml", "/moved.yml", "/a.yml?ref=main"} {
			if f := w.load(w.loader(), remote(s.URL+path)); string(f.Data) != "one\n" {
				t.Errorf("%s: got %q", path, f.Data)
			}
		}
	})
	t.Run("what is not a file", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		for path, part := range map[string]string{
			"/none.yml": "404", "/broken.yml": "501", "/login.yml": "web page", "/large.yml": "16", "/circle.yml": "redirect", "/plain.yml": "https to http",
			"/private.yml": "netrc",
		} {
			w.fails(w.loader(), remote(s.URL+path), part)
		}
		for _, address := range []string{"ftp://x/a.yml", "https:///a.yml", "https://%zz/", "//x"} {
			w.fails(w.loader(), remote(address), "https://")
		}
	})
	t.Run("a certificate that nobody knows", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		w.o.Rules.(*rules).client = nil
		w.fails(w.loader(), remote(s.URL+"/a.yml"), "certificate")
	})
	t.Run("what an address stands for stays what it was, and a change is refused", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		place := remote(s.URL + "/a.yml")
		l := w.loader()
		w.load(l, place)
		w.save(l)
		s.text.Store("two\n")
		before := s.asked.Load()
		for _, change := range []func(*include.Options){func(*include.Options) {}, offline} {
			if f := w.load(w.loader(change), place); string(f.Data) != "one\n" {
				t.Errorf("got %q", f.Data)
			}
		}
		if s.asked.Load() != before {
			t.Error("the server was asked for what is noted and in the cache")
		}
		empty := newWorld(t)
		w.fails(w.loader(func(o *include.Options) { o.Cache = empty.o.Cache }), place, "it has changed", "--refresh")
		l = w.loader(refresh)
		if f := w.load(l, place); string(f.Data) != "two\n" {
			t.Errorf("got %q", f.Data)
		}
		w.save(l)
		if f := w.load(w.loader(offline), place); string(f.Data) != "two\n" {
			t.Errorf("got %q", f.Data)
		}
	})
	t.Run("what was damaged in the cache is fetched anew", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		place := remote(s.URL + "/a.yml")
		w.load(w.loader(), place)
		trees, err := filepath.Glob(filepath.Join(w.o.Cache.Dir(), "trees", "*", "include.yml"))
		for _, file := range trees {
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			write(t, file, "evil\n")
		}
		if f := w.load(w.loader(), place); string(f.Data) != "one\n" || err != nil {
			t.Errorf("got %q, %v", f.Data, err)
		}
	})
	t.Run("credentials of an address get in, and stand in no file and no error", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		private := strings.Replace(s.URL, "://", "://me:"+secret+"@", 1)
		l := w.loader()
		if f := w.load(l, remote(private+"/private.yml?private_token="+secret+"&ref=a-long-name-of-a-branch")); string(f.Data) != "private\n" {
			t.Errorf("got %q", f.Data)
		}
		w.save(l)
		err := w.fails(w.loader(), remote(private+"/none.yml?x="+secret), "404")
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds a secret: %v", err)
		}
		text, _ := os.ReadFile(w.o.LockFile)
		if !strings.Contains(string(text), "a-long-name-of-a-branch") {
			t.Errorf("the lock file does not name the ref:\n%s", text)
		}
		err = filepath.WalkDir(filepath.Dir(w.dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) {
				t.Errorf("%s holds a secret (%v)", path, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("addresses that differ only in a secret are two", func(t *testing.T) {
		t.Parallel()
		w, s := newPair(t)
		l := w.loader()
		w.load(l, remote(s.URL+"/a.yml?token=aaaa"))
		s.text.Store("two\n")
		if f := w.load(l, remote(s.URL+"/a.yml?token=bbbb")); string(f.Data) != "two\n" {
			t.Errorf("got %q", f.Data)
		}
	})
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSite(t)
	const at = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/lib/gitlab/ci/templates"
	w.o.Rules = &rules{client: s.Client(), places: map[string]string{at + "/Jobs": s.URL, at + "/None.gitlab-ci": s.URL + "/none"}}
	place := func(name string) config.Place { return config.Place{Kind: config.Template, Path: name} }
	l := w.loader()
	if f := w.load(l, place("Jobs/Build.gitlab-ci.yml")); string(f.Data) != "one\n" {
		t.Errorf("got %q", f.Data)
	}
	w.save(l)
	if err := w.fails(l, place("None.gitlab-ci.yml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
	s.Close()
	if f := w.load(w.loader(), place("Jobs/Build.gitlab-ci.yml")); string(f.Data) != "one\n" {
		t.Errorf("a later run: got %q", f.Data)
	}
	for _, name := range []string{"Build.yml", "../x.gitlab-ci.yml", "/etc/x.gitlab-ci.yml", "a//b.gitlab-ci.yml", "https://x/a.gitlab-ci.yml"} {
		w.fails(l, place(name), "not a template name")
	}
}
