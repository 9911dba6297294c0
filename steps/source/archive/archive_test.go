package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// quick makes a policy that does not wait.
var quick = download.Policy{FirstWait: time.Millisecond}

func newFetcher(t *testing.T) *Fetcher {
	t.Helper()
	return &Fetcher{Cache: cache.New(t.TempDir()), Policy: quick}
}

func newServer(t *testing.T, tls bool) *sourcetest.ArchiveServer {
	t.Helper()
	s := sourcetest.NewArchiveServer(tls)
	t.Cleanup(s.Close)
	return s
}

// big is a folder whose archive has some 300 KB that cannot be compressed.
func big(t *testing.T) (dir, digest string) {
	t.Helper()
	dir = t.TempDir()
	var noise []byte
	for i := range 10_000 {
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		noise = append(noise, sum[:]...)
	}
	for name, content := range map[string][]byte{"func.yml": []byte("run: []\n"), "noise": noise} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest, err := tree.Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

func zipped(t *testing.T) (data []byte, digest string) {
	t.Helper()
	dir, digest := big(t)
	data, err := sourcetest.Zip(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return data, digest
}

func at(s *sourcetest.ArchiveServer, u string) *source.Location {
	return &source.Location{Kind: "archive", Name: source.WithoutUserinfo(u), URL: u, Access: source.Access{HTTP: s.Client()}}
}

func pinOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func fetch(f *Fetcher, at *source.Location, pin string) (digest string, err error) {
	w := tree.NewWriter(io.Discard)
	if err := f.Fetch(context.Background(), at, pin, w); err != nil {
		return "", err
	}
	return w.Close()
}

// resolved resolves and fetches, and compares the content.
func resolved(t *testing.T, f *Fetcher, at *source.Location, want string) {
	t.Helper()
	pin, err := f.Resolve(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fetch(f, at, pin); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func downloads(t *testing.T, f *Fetcher) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(f.Cache.Dir(), "downloads"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestFetchingOverHTTP(t *testing.T) {
	t.Parallel()
	data, digest := zipped(t)
	t.Run("the pin is the digest of the bytes, and they are downloaded once", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, true), newFetcher(t)
		loc := at(s, s.Put("/step.zip", data))
		pin, err := f.Resolve(context.Background(), loc)
		if err != nil || pin != pinOf(data) {
			t.Fatal(pin, err)
		}
		if got, err := fetch(f, loc, pin); err != nil || got != digest {
			t.Fatal(got, err)
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("there were %d requests", n)
		}
		if n := downloads(t, f); n != 0 {
			t.Errorf("%d files of downloads are left", n)
		}
	})
	t.Run("a digest that is given needs no network to resolve", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		loc := at(s, s.URL+"/no.zip")
		loc.Rev = pinOf(data)
		if pin, err := f.Resolve(context.Background(), loc); err != nil || pin != loc.Rev || len(s.Requests()) != 0 {
			t.Error(pin, err, len(s.Requests()))
		}
		loc.Rev = "sha256:abc"
		var denied *source.DeniedError
		if _, err := f.Resolve(context.Background(), loc); !errors.As(err, &denied) {
			t.Error(err)
		}
	})
	t.Run("other bytes than those of the pin are refused", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		loc := at(s, s.Put("/step.zip", data))
		want := pinOf([]byte("something else"))
		_, err := fetch(f, loc, want)
		var denied *source.DeniedError
		if !errors.As(err, &denied) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), pinOf(data)) {
			t.Error(err)
		}
	})
	t.Run("a download that was left by somebody else does not matter", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		loc := at(s, s.Put("/step.zip", data))
		path, err := f.Cache.Download(loc.URL)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{path: "rubbish", path + ".json": `{"last_modified":"Tue, 14 Nov 2023 22:13:20 GMT"}`} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := fetch(f, loc, pinOf(data)); err != nil || got != digest {
			t.Error(got, err)
		}
	})
	t.Run("what is there is asked for again only when it changed", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		loc := at(s, s.Put("/step.zip", data))
		for range 2 {
			if _, err := f.Resolve(context.Background(), loc); err != nil {
				t.Fatal(err)
			}
		}
		if r := s.Requests(); len(r) != 2 || r[1].Header.Get("If-None-Match") == "" {
			t.Error("the second request was for everything")
		}
		other := append(bytes.Clone(data), 'x')
		s.Put("/step.zip", other)
		if pin, err := f.Resolve(context.Background(), loc); err != nil || pin != pinOf(other) {
			t.Error(pin, err)
		}
	})
	t.Run("progress ends with all of it", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		var last event.Progress
		ctx := source.WithProgress(context.Background(), func(p event.Progress) { last = p })
		if _, err := f.Resolve(ctx, at(s, s.Put("/step.zip", data))); err != nil {
			t.Fatal(err)
		}
		if !last.Done || last.Current != int64(len(data)) || last.Total != last.Current || last.Unit != "bytes" || last.Title == "" {
			t.Errorf("%+v", last)
		}
	})
}

func TestDownloadsThatBreak(t *testing.T) {
	t.Parallel()
	data, digest := zipped(t)
	half := len(data) / 2
	// first answers the first requests with each of these in turn.
	first := func(answers ...http.HandlerFunc) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, r *http.Request, n int) bool {
			if n > len(answers) {
				return false
			}
			answers[n-1](w, r)
			return true
		}
	}
	breakOff := func(etag string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if etag != "" {
				w.Header().Set("ETag", etag)
			}
			sourcetest.BreakOff(w, data, half)
		}
	}
	sum := sha256.Sum256(data)
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	whole := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
	for name, test := range map[string]struct {
		answers  []http.HandlerFunc
		requests int
		ranged   bool // the last request
	}{
		"goes on where it stopped":                      {[]http.HandlerFunc{breakOff(etag)}, 2, true},
		"from the start where the file changed":         {[]http.HandlerFunc{breakOff(`"other"`)}, 2, true},
		"from the start where nothing tells":            {[]http.HandlerFunc{breakOff("")}, 2, false},
		"from the start with a weak tag":                {[]http.HandlerFunc{breakOff(`W/"weak"`)}, 2, false},
		"from the start where ranges are not known":     {[]http.HandlerFunc{breakOff(etag), whole}, 2, true},
		"from the start where another range comes":      {[]http.HandlerFunc{breakOff(etag), status(206, "Content-Range", "bytes 7-9/10")}, 3, false},
		"from the start where the range is out of it":   {[]http.HandlerFunc{breakOff(etag), status(416)}, 3, false},
		"a busy server is asked again":                  {[]http.HandlerFunc{status(503, "Retry-After", "0"), status(429), status(500), status(502)}, 5, false},
		"a server that hangs up at once is asked again": {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := newServer(t, false), newFetcher(t)
			s.Intercept = first(test.answers...)
			resolved(t, f, at(s, s.Put("/step.zip", data)), digest)
			r := s.Requests()
			if len(r) != test.requests || (r[len(r)-1].Header.Get("Range") != "") != test.ranged {
				t.Errorf("%d requests, the last with the range %q", len(r), r[len(r)-1].Header.Get("Range"))
			}
		})
	}
	t.Run("another process goes on, too", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		f.Policy.Attempts = 1
		s.Intercept = first(breakOff(etag))
		loc := at(s, s.Put("/step.zip", data))
		var failed *source.FetchError
		if _, err := f.Resolve(context.Background(), loc); !errors.As(err, &failed) {
			t.Fatal(err)
		}
		resolved(t, &Fetcher{Cache: f.Cache}, loc, digest)
		if r := s.Requests()[1]; r.Header.Get("Range") != fmt.Sprintf("bytes=%d-", half) || r.Header.Get("If-Range") != etag {
			t.Error(r.Header)
		}
	})
	t.Run("a server that stalls is given up", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		f.Policy.Stall, f.Policy.Attempts = 30*time.Millisecond, 2
		over := make(chan struct{})
		s.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("PK"))
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return true
		}
		defer close(over)
		_, err := f.Resolve(context.Background(), at(s, s.URL+"/step.zip"))
		if !errors.Is(err, download.ErrStalled) {
			t.Error(err)
		}
	})
	t.Run("a wait ends when the run does", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		reason := errors.New("stopped")
		s.Intercept = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(503)
			cancel(reason)
			return true
		}
		if _, err := f.Resolve(ctx, at(s, s.URL+"/step.zip")); !errors.Is(err, reason) {
			t.Error(err)
		}
	})
	t.Run("many at once download it once", func(t *testing.T) {
		t.Parallel()
		s, f := newServer(t, false), newFetcher(t)
		loc := at(s, s.Put("/step.zip", data))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { resolved(t, f, loc, digest) })
		}
		wg.Wait()
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	s := newServer(t, false)
	for _, code := range []int{404, 410, 401, 403, 400, 418, 501} {
		s.Put(fmt.Sprintf("/%d", code), nil)
	}
	s.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		var code int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err != nil {
			return false
		}
		w.WriteHeader(code)
		return true
	}
	kind := func(err error) string {
		var missing *source.NotFoundError
		var denied *source.DeniedError
		var failed *source.FetchError
		switch {
		case errors.As(err, &missing):
			return "not found"
		case errors.As(err, &denied):
			return "denied"
		case errors.As(err, &failed):
			return "failed"
		}
		return fmt.Sprint(err)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for path, want := range map[string]string{
		s.URL + "/404": "not found", s.URL + "/410": "not found", s.URL + "/401": "denied", s.URL + "/403": "denied",
		s.URL + "/400": "failed", s.URL + "/418": "failed", s.URL + "/501": "failed", closed.URL: "failed",
		"ftp://host/a.zip": "denied", "file://host/a.zip": "denied", "file:///no/such/file.zip": "not found",
		"http://user:s3cr3t@" + strings.TrimPrefix(s.URL, "http://") + "/401?token=s3cr3t":   "denied",
		"http://user:s3cr3t@" + strings.TrimPrefix(closed.URL, "http://") + "/?token=s3cr3t": "failed",
		"http://user:s3cr3t@[": "denied",
	} {
		loc := at(s, path)
		loc.Name = "the-archive"
		_, err := newFetcher(t).Resolve(context.Background(), loc)
		if got := kind(err); got != want {
			t.Errorf("%s: got %s (%v), want %s", path, got, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), "the-archive")) {
			t.Errorf("the error shows a secret, or not what it is about: %v", err)
		}
	}
	t.Run("a bad archive names its entry", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		out.WriteString("<html>log in</html>")
		loc := at(s, s.Put("/login.zip", out.Bytes()))
		_, err := fetch(newFetcher(t), loc, pinOf(out.Bytes()))
		if kind(err) != "denied" || !strings.Contains(err.Error(), "web page") {
			t.Error(err)
		}
	})
	t.Run("what is too large is not downloaded", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, false)
		s.Intercept = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.Header().Set("Content-Length", fmt.Sprint(int64(MaxSize)+1))
			_, _ = w.Write([]byte("PK"))
			return true
		}
		_, err := newFetcher(t).Resolve(context.Background(), at(s, s.URL+"/huge.zip"))
		if kind(err) != "denied" || !strings.Contains(err.Error(), "limit") {
			t.Error(err)
		}
	})
}

type netrc map[string][2]string

func (n netrc) HTTP(_ context.Context, u string) (user, password string, ok bool, err error) {
	parsed, err := url.Parse(u)
	if err != nil {
		return "", "", false, err
	}
	pair, ok := n[parsed.Host]
	return pair[0], pair[1], ok, nil
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	data, digest := zipped(t)
	s := newServer(t, true)
	s.Put("/step.zip", data)
	s.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "s3cr3t" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	host := strings.TrimPrefix(s.URL, "https://")
	loc := func(u string, access source.Access) *source.Location {
		l := at(s, u)
		access.HTTP = l.Access.HTTP
		l.Access = access
		return l
	}
	t.Run("from the source's owner", func(t *testing.T) {
		t.Parallel()
		resolved(t, newFetcher(t), loc(s.URL+"/step.zip", source.Access{Username: "me", Password: "s3cr3t"}), digest)
	})
	t.Run("from the address", func(t *testing.T) {
		t.Parallel()
		resolved(t, newFetcher(t), loc("https://me:s3cr3t@"+host+"/step.zip", source.Access{}), digest)
	})
	t.Run("from the usual places", func(t *testing.T) {
		t.Parallel()
		f := newFetcher(t)
		f.Credentials = netrc{host: {"me", "s3cr3t"}}
		resolved(t, f, loc(s.URL+"/step.zip", source.Access{}), digest)
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		var denied *source.DeniedError
		_, err := newFetcher(t).Resolve(context.Background(), loc(s.URL+"/step.zip", source.Access{}))
		if !errors.As(err, &denied) || denied.Hint == "" {
			t.Error(err)
		}
	})
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	data, digest := zipped(t)
	other := newServer(t, true)
	target := other.Put("/step.zip", data)
	plain := newServer(t, false)
	insecure := plain.Put("/step.zip", data)
	s := newServer(t, true)
	same := s.Put("/here.zip", data)
	s.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		to := map[string]string{"/other": target, "/insecure": insecure, "/same": same, "/circle": s.URL + "/circle", "/file": "file:///etc/passwd"}[r.URL.Path]
		if to == "" {
			return false
		}
		http.Redirect(w, r, to, http.StatusFound)
		return true
	}
	loc := func(path string) *source.Location {
		l := at(s, s.URL+path)
		l.Access.Username, l.Access.Password = "me", "s3cr3t"
		return l
	}
	resolved(t, newFetcher(t), loc("/other?token=s3cr3t"), digest)
	for _, r := range other.Requests() {
		if r.Header.Get("Authorization") != "" || strings.Contains(r.Header.Get("Referer"), "s3cr3t") {
			t.Error("the credentials went to another host", r.Header)
		}
	}
	resolved(t, newFetcher(t), loc("/same"), digest)
	if r := s.Requests(); r[len(r)-1].Header.Get("Authorization") == "" {
		t.Error("the same host did not get the credentials")
	}
	for _, path := range []string{"/insecure", "/circle", "/file"} {
		var denied *source.DeniedError
		if _, err := newFetcher(t).Resolve(context.Background(), loc(path)); !errors.As(err, &denied) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(plain.Requests()) != 0 {
		t.Error("a redirect led to where there is no TLS")
	}
}

func TestLocalArchives(t *testing.T) {
	t.Parallel()
	data, digest := zipped(t)
	file := filepath.Join(t.TempDir(), "a step.zip")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	u := (&url.URL{Scheme: "file", Path: path}).String()
	loc := &source.Location{Kind: "archive", Name: u, URL: u}
	f := newFetcher(t)
	resolved(t, f, loc, digest)
	resolved(t, f, &source.Location{Kind: "archive", Name: "./a step.zip", URL: "file://" + filepath.ToSlash(file)}, digest) // as it is
	if n := downloads(t, f); n != 0 {
		t.Errorf("%d files of downloads are left", n)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("the archive is gone")
	}
	var denied *source.DeniedError
	if _, err := fetch(f, loc, pinOf([]byte("other"))); !errors.As(err, &denied) {
		t.Error(err)
	}
	folder := *loc
	folder.URL = u[:strings.LastIndexByte(u, '/')]
	if _, err := f.Resolve(context.Background(), &folder); !errors.As(err, &denied) {
		t.Error(err)
	}
}
