//go:build unix

package manager_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
	"github.com/rungci/rung/steps/catalog/cachekey"
)

// cachesIn is the table of a configuration for caches in a bucket of S3.
func cachesIn(store *buckettest.Store, more string) string {
	return fmt.Sprintf("[runners.cache]\nType = \"s3\"\nPath = \"builds\"\n%s\n[runners.cache.s3]\nServerAddress = %q\nAccessKey = %q\nSecretKey = %q\nBucketName = \"runner-cache\"\nBucketLocation = \"eu-central-1\"\nInsecure = true",
		more, strings.TrimPrefix(store.URL, "http://"), buckettest.AccessKey, buckettest.SecretKey)
}

// caching is a job with a cache.
// What it finds in its folder is of caches, and not of the job before it.
func caching(key string, lines ...string) gitlab.Job {
	j := script(lines...)
	j.Variables[0].Value = "empty"
	j.Cache = []gitlab.Cache{{Key: key, Paths: []string{"deps/"}, FallbackKeys: []string{"main-non_protected"}, Policy: "pull-push", When: "on_success"}}
	return j
}

// objects are the names of what is in a bucket.
func objects(s *buckettest.Store) (names []string) {
	for name := range s.Objects() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestCachesAreSharedByAStore(t *testing.T) {
	t.Parallel()
	store := buckettest.S3(t, "eu-central-1", false)
	first, second := newWorld(t), newWorld(t)
	first.start(first.configure("concurrent = 1\ncheck_interval = 1", cachesIn(store, "Shared = true")))
	second.start(second.configure("concurrent = 1\ncheck_interval = 1", cachesIn(store, "Shared = true")))

	r := first.result(first.server.Enqueue(caching("main-non_protected", "mkdir deps", "echo one >deps/a")))
	if r.State != "success" || !strings.Contains(r.Log, "Created cache: 2 entries") {
		t.Fatalf("got %s\n%s", r.State, r.Log)
	}
	const name = "/runner-cache/builds/project/7/main-non_protected"
	if got := objects(store); !slices.Equal(got, []string{name}) {
		t.Fatalf("the bucket has %q", got)
	}
	object := store.Objects()[name]
	if archive, err := zip.NewReader(bytes.NewReader(object.Content), int64(len(object.Content))); err != nil || len(archive.File) != 2 {
		t.Errorf("it is no archive of two entries: %v", err)
	}
	if got := object.Metadata.Get("X-Amz-Meta-Cachekey"); got != "main-non_protected" {
		t.Errorf("its key is %q", got)
	}

	r = second.result(second.server.Enqueue(caching("feature-non_protected", "cat deps/a", "echo two >deps/b")))
	if r.State != "success" || !strings.Contains(r.Log, "\none\n") || !strings.Contains(r.Log, "Checking cache for main-non_protected...\nSuccessfully extracted cache") {
		t.Fatalf("got %s\n%s", r.State, r.Log)
	}
	if got := objects(store); !slices.Equal(got, []string{"/runner-cache/builds/project/7/feature-non_protected", name}) {
		t.Errorf("the bucket has %q", got)
	}
}

func TestNamesOfCachesInAStore(t *testing.T) {
	t.Parallel()
	store := buckettest.S3(t, "eu-central-1", false)
	w := newWorld(t)
	c := w.configure("concurrent = 1\ncheck_interval = 1", cachesIn(store, ""))
	own := c.Runners[0].CacheNamespace()
	if token := w.tokens[0]; len(own) != 9 || !strings.Contains(token, own) || strings.Contains(own, "glrt-") {
		t.Fatalf("the runner %s is called %q", token, own)
	}
	w.start(c)
	hashed := caching("main-protected", "mkdir deps; echo one >deps/a")
	hashed.Variables = append(hashed.Variables, gitlab.Variable{Key: "FF_HASH_CACHE_KEYS", Value: "true"})
	for _, j := range []gitlab.Job{caching("../../8/main", "mkdir deps; echo one >deps/a"), hashed} {
		if r := w.result(w.server.Enqueue(j)); r.State != "success" || !strings.Contains(r.Log, "Created cache") {
			t.Errorf("got %s\n%s", r.State, r.Log)
		}
	}
	base := "/runner-cache/builds/runner/" + own + "/project/7/"
	hash := cachekey.Hash("main-protected")
	if got, want := objects(store), []string{base + hash[:2] + "/" + hash, base + "8/main"}; !slices.Equal(got, want) {
		t.Fatalf("the bucket has %q, want %q", got, want)
	}
	if got := store.Objects()[base+hash[:2]+"/"+hash].Metadata.Get("X-Amz-Meta-Cachekey"); got != "main-protected" {
		t.Errorf("the key of the hash is %q", got)
	}
}

// TestServersShareNoCaches is about two projects with one number, of two servers.
func TestServersShareNoCaches(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	c := w.configure("concurrent = 1\ncheck_interval = 1", "", "")
	c.Runners[1].URL, c.Runners[1].Token = other.url, other.server.NewRunner()
	w.start(c)
	if r := w.result(w.server.Enqueue(caching("main", "mkdir deps; echo one >deps/a"))); r.State != "success" || !strings.Contains(r.Log, "Created cache") {
		t.Fatalf("got %s\n%s", r.State, r.Log)
	}
	if r := other.result(other.server.Enqueue(caching("main", "test ! -e deps/a"))); r.State != "success" {
		t.Errorf("a project has the cache of another server's\n%s", r.Log)
	}
	if r := w.result(w.server.Enqueue(caching("main", "cat deps/a"))); r.State != "success" {
		t.Errorf("a project does not have its cache\n%s", r.Log)
	}
}

// TestAStoreThatFailsIsAWarning is for each way in which a store can fail.
func TestAStoreThatFailsIsAWarning(t *testing.T) {
	t.Parallel()
	answer := func(status int, code string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut {
				return false
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message><Resource>%s</Resource></Error>", code, r.URL.Path)
			return true
		}
	}
	for name, tc := range map[string]struct {
		fail       func(w http.ResponseWriter, r *http.Request) bool
		more, want string
	}{
		"forbidden":              {answer(403, "AccessDenied"), "", "warning: the cache main is not kept: PUT "},
		"broken":                 {answer(500, "InternalError"), "", "the server answers 500 Internal Server Error: InternalError: no"},
		"the bucket has gone":    {answer(404, "NoSuchBucket"), "", "the server answers 404 Not Found: NoSuchBucket: no"},
		"the archive is large":   {nil, "MaxUploadedArchiveSize = 100", "and the store takes at most 100"},
		"the connection is lost": {func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) }, "", "warning: the cache main is not kept: PUT "},
		"it is slow": {func(_ http.ResponseWriter, r *http.Request) bool {
			time.Sleep(2 * time.Second)
			return false
		}, "", "Created cache: 2 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := buckettest.S3(t, "eu-central-1", false)
			store.Fail = tc.fail
			w := newWorld(t)
			w.start(w.configure("concurrent = 1\ncheck_interval = 1", cachesIn(store, tc.more)))
			r := w.result(w.server.Enqueue(caching("main", "mkdir deps; echo one >deps/a")))
			if r.State != "success" || !strings.Contains(r.Log, tc.want) {
				t.Errorf("got %s\n%s", r.State, r.Log)
			}
			for _, secret := range []string{buckettest.SecretKey, "X-Amz-Signature", "X-Amz-Credential"} {
				if strings.Contains(r.Log, secret) {
					t.Errorf("the log has %s\n%s", secret, r.Log)
				}
			}
		})
	}
}

func TestAStoreThatCannotBeUsedIsAWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", "[runners.cache]\nType = \"s3\"\n[runners.cache.s3]\nServerAddress = \"s3.example\""))
	r := w.result(w.server.Enqueue(caching("main", "mkdir deps; echo one >deps/a")))
	if r.State != "success" || !strings.Contains(r.Log, "the cache main is not kept: the runner cannot sign an address for it; the runner's log says why") || strings.Contains(r.Log, "BucketName") {
		t.Errorf("got %s\n%s", r.State, r.Log)
	}
}

// TestWhatSignsStaysWithTheManager looks for the keys of the store, and for signed addresses, wherever others could see them: while a cache is
// sent, and afterwards.
func TestWhatSignsStaysWithTheManager(t *testing.T) {
	t.Parallel()
	store := buckettest.S3(t, "eu-central-1", false)
	w := newWorld(t)
	var found []string
	look := func(when string, text []byte, where string, secrets ...string) {
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				found = append(found, fmt.Sprintf("%s: %s is in %s", when, secret, where))
			}
		}
	}
	scan := func(when string) {
		processes, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range processes {
			for _, name := range []string{"cmdline", "environ"} {
				text, _ := os.ReadFile(filepath.Join(p, name)) // it may have ended, or be another user's
				look(when, text, name, "X-Amz-Signature=", buckettest.SecretKey)
			}
		}
		_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				text, _ := os.ReadFile(path)
				look(when, text, path, "X-Amz-Signature=", buckettest.SecretKey)
			}
			return nil
		})
	}
	store.Fail = func(_ http.ResponseWriter, r *http.Request) bool {
		scan(r.Method)
		return false
	}
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", cachesIn(store, "")+"\n[runners.traces]\ndir = \"traces\""))
	r := w.result(w.server.Enqueue(caching("main", "mkdir deps; env >deps/env; env", "export -p")))
	if r.State != "success" || !strings.Contains(r.Log, "Created cache") {
		t.Fatalf("got %s\n%s", r.State, r.Log)
	}
	scan("afterwards")
	look("the job", []byte(r.Log), "the log", "X-Amz-Signature", "X-Amz-Credential", buckettest.SecretKey, buckettest.AccessKey)
	for _, text := range found {
		t.Error(text)
	}
}
