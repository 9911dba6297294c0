package cache

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
	"github.com/rungci/rung/steps/catalog/programtest"
	"github.com/rungci/rung/steps/catalog/transfer"
)

func TestMain(m *testing.M) {
	clientHook = func(c *transfer.Client) { c.Wait = func(context.Context, time.Duration) error { return nil } }
	os.Exit(m.Run())
}

// inputs of a step, by name.
type inputs map[string]any

func saved(t *testing.T, dir string, in inputs, env ...string) *programtest.Result {
	t.Helper()
	all := inputs{"key": "main", "paths": []string{"deps"}, "untracked": false, "location": "", "url": "", "headers": map[string]string{}, "format": "zip", "level": "default"}
	for name, v := range in {
		all[name] = v
	}
	return programtest.Run(t, Save, dir, all, env...)
}

func restored(t *testing.T, dir string, in inputs, env ...string) *programtest.Result {
	t.Helper()
	all := inputs{"key": "main", "fallback_keys": []string{}, "location": "", "urls": map[string]string{}}
	for name, v := range in {
		all[name] = v
	}
	return programtest.Run(t, Restore, dir, all, env...)
}

// files returns what is below a folder: the content of files, and where links lead.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir():
			out[name+"/"] = ""
		case d.Type() == os.ModeSymlink:
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		default:
			text, err := os.ReadFile(path)
			out[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// project makes a work directory with things to keep.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	programtest.Write(t, dir, map[string]string{"deps/a.txt": "a", "deps/sub/b.txt": strings.Repeat("b", 5000), "deps/empty/": "", "main.go": "package main"})
	return dir
}

var content = map[string]string{"deps/": "", "deps/a.txt": "a", "deps/sub/": "", "deps/sub/b.txt": strings.Repeat("b", 5000), "deps/empty/": ""}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	account, key := buckettest.Account(t)
	s3 := buckettest.S3(t, "eu-central-1", true)
	gcs := buckettest.GCS(t, key)
	aws := []string{"AWS_ACCESS_KEY_ID=" + buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY=" + buckettest.SecretKey, "AWS_SESSION_TOKEN=" + buckettest.SessionToken}
	for _, tc := range []struct {
		name, location string
		env            []string
	}{
		{name: "a folder", location: t.TempDir()},
		{name: "a bucket of S3", location: "s3://bucket/project/7?region=eu-central-1&endpoint=" + s3.URL, env: aws},
		{name: "a bucket of Google", location: "gs://bucket/project/7?endpoint=" + gcs.URL, env: []string{"GOOGLE_APPLICATION_CREDENTIALS_JSON=" + account}},
	} {
		for _, format := range []string{"zip", "zipzstd", "tarzstd"} {
			t.Run(tc.name+", "+format, func(t *testing.T) {
				t.Parallel()
				from, to := project(t), t.TempDir()
				in := inputs{"key": "main/" + format, "location": tc.location, "format": format}
				r := saved(t, from, in, tc.env...)
				if r.Err != nil || r.Output("saved") != "true" || r.Output("bytes") == "0" {
					t.Fatalf("saving gives %v, %v\n%s", r.Err, r.Outputs, r.Log)
				}
				r = restored(t, to, inputs{"key": "main/" + format, "location": tc.location}, tc.env...)
				if r.Err != nil || r.Output("key") != "main/"+format {
					t.Fatalf("restoring gives %v, %v\n%s", r.Err, r.Outputs, r.Log)
				}
				if diff := cmp.Diff(content, files(t, to)); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
				// What was unpacked and not touched is what is kept already, in another job as well.
				if r = saved(t, to, in, tc.env...); r.Err != nil || r.Output("saved") != "false" || !strings.Contains(r.Log, "Archive is up to date!") {
					t.Errorf("saving it again gives %v, %v\n%s", r.Err, r.Outputs, r.Log)
				}
			})
		}
	}
}

func TestWhatChangesIsKeptAgain(t *testing.T) {
	t.Parallel()
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		change func(dir string) error
		format string
		want   string
	}{
		{name: "nothing", change: func(string) error { return nil }, want: "false"},
		{name: "a file beside", change: func(dir string) error { return os.WriteFile(filepath.Join(dir, "main.go"), nil, 0o644) }, want: "false"},
		{name: "a folder's time", change: func(dir string) error { return os.Chtimes(filepath.Join(dir, "deps"), old, old) }, want: "false"},
		{name: "a file's size", change: func(dir string) error { return os.WriteFile(filepath.Join(dir, "deps/a.txt"), []byte("aa"), 0o644) }, want: "true"},
		{name: "a file's time, even to one long ago", change: func(dir string) error { return os.Chtimes(filepath.Join(dir, "deps/a.txt"), old, old) }, want: "true"},
		{name: "a new file", change: func(dir string) error { return os.WriteFile(filepath.Join(dir, "deps/c.txt"), nil, 0o644) }, want: "true"},
		{name: "a file that has gone", change: func(dir string) error { return os.Remove(filepath.Join(dir, "deps/a.txt")) }, want: "true"},
		{name: "the format", change: func(string) error { return nil }, format: "tarzstd", want: "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, location := project(t), t.TempDir()
			if r := saved(t, dir, inputs{"location": location}); r.Err != nil || r.Output("saved") != "true" {
				t.Fatalf("%v\n%s", r.Err, r.Log)
			}
			if err := tc.change(dir); err != nil {
				t.Fatal(err)
			}
			r := saved(t, dir, inputs{"location": location, "format": tc.format + map[bool]string{true: "zip"}[tc.format == ""]})
			if r.Err != nil || r.Output("saved") != tc.want {
				t.Errorf("saved is %s, %v\n%s", r.Output("saved"), r.Err, r.Log)
			}
		})
	}
}

func TestArchivesOfSomebodyElseCountAsTheRunnerHasIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after time.Duration
		want  string
	}{
		"an archive that is newer than every file is up to date": {time.Hour, "false"},
		"an archive that is older than a file is made again":     {-time.Hour, "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, location := project(t), t.TempDir()
			programtest.Write(t, location, map[string]string{"main/cache.zip": "of somebody else"})
			at := time.Now().Add(tc.after)
			if err := os.Chtimes(filepath.Join(location, "main/cache.zip"), at, at); err != nil {
				t.Fatal(err)
			}
			if r := saved(t, dir, inputs{"location": location}); r.Err != nil || r.Output("saved") != tc.want {
				t.Errorf("saved is %s, %v\n%s", r.Output("saved"), r.Err, r.Log)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	location := t.TempDir()
	store := filepath.Join(location, "store")
	if r := saved(t, project(t), inputs{"key": "../../feature/a b/..", "location": store}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := files(t, location); got["store/feature/cache.zip"] == "" {
		t.Errorf("there is %v", got)
	}
	for name, tc := range map[string]struct {
		key       string
		fallbacks []string
		want, log string
	}{
		"the key itself":                          {"feature", nil, "feature", "Checking cache for feature..."},
		"a key that is cleaned":                   {"/feature/ ", nil, "feature", "Successfully extracted cache"},
		"the first fallback key that has one":     {"none", []string{"neither", "feature", "later"}, "feature", "Checking cache for neither..."},
		"no cache at all":                         {"none", []string{"neither"}, "", "there is no cache of this key"},
		"a key of which nothing is left":          {"../..", []string{"feature"}, "feature", "warning: "},
		"a fallback key of which nothing is left": {"none", []string{"%2E"}, "", "warning: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := restored(t, t.TempDir(), inputs{"key": tc.key, "fallback_keys": tc.fallbacks, "location": store})
			if r.Err != nil || r.Output("key") != tc.want || !strings.Contains(r.Log, tc.log) {
				t.Errorf("got %q, %v\n%s", r.Output("key"), r.Err, r.Log)
			}
		})
	}
	t.Run("saving under a key of which nothing is left fails", func(t *testing.T) {
		t.Parallel()
		for _, key := range []string{"", "..", "/", "%2E%2E"} {
			if r := saved(t, t.TempDir(), inputs{"key": key, "location": store}); r.Err == nil {
				t.Errorf("%q can be used", key)
			}
		}
	})
}

// archiveOf makes a zip archive by hand.
func archiveOf(t *testing.T, headers ...*zip.FileHeader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, h := range headers {
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(h.Comment)); err != nil { // the comment stands for the content
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBadArchivesAreWarningsAndTouchNothingOutside(t *testing.T) {
	t.Parallel()
	link := &zip.FileHeader{Name: "deps", Comment: "../outside"}
	link.SetMode(os.ModeSymlink | 0o777)
	good := archiveOf(t, &zip.FileHeader{Name: "deps/a.txt", Comment: strings.Repeat("a", 4000)})
	var stream bytes.Buffer
	z, err := zstd.NewWriter(&stream)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "../outside/file", Mode: 0o644, Size: 1}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("x"))
	_, _ = w.Close(), z.Close()
	for name, archive := range map[string][]byte{
		"empty":                           nil,
		"no archive":                      []byte("<html>no archive</html>"),
		"cut short":                       good[:len(good)-30],
		"cut in the middle":               good[:len(good)/3],
		"a name that leaves":              archiveOf(t, &zip.FileHeader{Name: "../outside/file", Comment: "x"}),
		"an absolute name":                archiveOf(t, &zip.FileHeader{Name: "/etc/outside", Comment: "x"}),
		"a file behind a planted link":    archiveOf(t, link, &zip.FileHeader{Name: "deps/file", Comment: "x"}),
		"a name that leaves, in a stream": stream.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			programtest.Write(t, root, map[string]string{"store/main/cache.zip": string(archive), "work/": "", "outside/": ""})
			r := restored(t, filepath.Join(root, "work"), inputs{"location": filepath.Join(root, "store")})
			if r.Err != nil || r.Output("key") != "" || !strings.Contains(r.Log, "warning: the cache main is not unpacked: ") {
				t.Errorf("got %q, %v\n%s", r.Output("key"), r.Err, r.Log)
			}
			want := map[string]string{"store/": "", "store/main/": "", "store/main/cache.zip": string(archive), "work/": "", "outside/": ""}
			if diff := cmp.Diff(want, files(t, root)); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestLinksInTheLocationAreNotFollowed(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]string{"the folder of the key": "group/main", "a part of the key": "group", "the archive": "group/main/" + archiveName} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location, elsewhere := t.TempDir(), t.TempDir()
			programtest.Write(t, elsewhere, map[string]string{"precious": "1"})
			path := filepath.Join(location, filepath.FromSlash(link))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, path); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
			in := inputs{"key": "group/main", "location": location}
			if r := saved(t, project(t), in); r.Err != nil || r.Output("saved") != "false" || !strings.Contains(r.Log, "symbolic link") {
				t.Errorf("saving gives %v, %v\n%s", r.Err, r.Outputs, r.Log)
			}
			if r := restored(t, t.TempDir(), in); r.Err != nil || !strings.Contains(r.Log, "symbolic link") {
				t.Errorf("restoring gives %v\n%s", r.Err, r.Log)
			}
			if diff := cmp.Diff(map[string]string{"precious": "1"}, files(t, elsewhere)); diff != "" {
				t.Errorf("outside of the location, want (-), got (+):\n%s", diff)
			}
		})
	}
	t.Run("but the location may be reached by one", func(t *testing.T) {
		t.Parallel()
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(t.TempDir(), link); err != nil {
			t.Skip("needs symbolic links: ", err)
		}
		if r := saved(t, project(t), inputs{"location": link}); r.Err != nil || r.Output("saved") != "true" {
			t.Errorf("saving gives %v, %v\n%s", r.Err, r.Outputs, r.Log)
		}
	})
}

func TestAfterABadArchiveTheNextKeyCounts(t *testing.T) {
	t.Parallel()
	location := t.TempDir()
	if r := saved(t, project(t), inputs{"key": "good", "location": location}); r.Err != nil {
		t.Fatal(r.Err)
	}
	programtest.Write(t, location, map[string]string{"bad/cache.zip": "bad"})
	r := restored(t, t.TempDir(), inputs{"key": "bad", "fallback_keys": []string{"good"}, "location": location})
	if r.Err != nil || r.Output("key") != "good" {
		t.Errorf("got %q, %v\n%s", r.Output("key"), r.Err, r.Log)
	}
}

func TestThereIsNeverHalfAnArchive(t *testing.T) {
	t.Parallel()
	dir, location := project(t), t.TempDir()
	if r := saved(t, dir, inputs{"location": location}); r.Err != nil {
		t.Fatal(r.Err)
	}
	before := files(t, location)
	if err := os.WriteFile(filepath.Join(dir, "deps/a.txt"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := programtest.RunContext(t, ctx, Save, dir, inputs{"key": "main", "paths": []string{"deps"}, "location": location, "format": "zip"})
	if r.Err == nil {
		t.Error("a cancelled step succeeds")
	}
	if diff := cmp.Diff(before, files(t, location)); diff != "" {
		t.Errorf("before (-), after (+):\n%s", diff)
	}
}

func TestACacheInTheWorkDirectoryDoesNotHoldItself(t *testing.T) {
	t.Parallel()
	dir := project(t)
	for range 2 {
		if r := saved(t, dir, inputs{"paths": []string{"**/*"}, "location": "kept"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		_ = os.WriteFile(filepath.Join(dir, "deps/a.txt"), []byte("changed"), 0o644)
	}
	to := t.TempDir()
	if r := restored(t, to, inputs{"location": filepath.Join(dir, "kept")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for name := range files(t, to) {
		if strings.HasPrefix(name, "kept") {
			t.Errorf("the archive holds %s", name)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	var stored []byte
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("signature") != "s3cret":
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodPut && r.ContentLength > 0:
			stored, _ = io.ReadAll(r.Body)
			header = r.Header.Clone()
		case r.Method == http.MethodGet && r.URL.Path == "/main" && stored != nil:
			_, _ = w.Write(stored)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	r := saved(t, project(t), inputs{"url": server.URL + "/main?signature=s3cret", "headers": map[string]string{"x-amz-acl": "private"}})
	if r.Err != nil || r.Output("saved") != "true" || header.Get("X-Amz-Acl") != "private" {
		t.Fatalf("saving gives %v, %v\n%s", r.Err, header, r.Log)
	}
	to := t.TempDir()
	urls := map[string]string{"a b/": server.URL + "/main?signature=s3cret", "gone": server.URL + "/gone?signature=s3cret"}
	r = restored(t, to, inputs{"key": "gone", "fallback_keys": []string{"none", "a b/"}, "urls": urls})
	if r.Err != nil || r.Output("key") != "a b" {
		t.Fatalf("restoring gives %q, %v\n%s", r.Output("key"), r.Err, r.Log)
	}
	if diff := cmp.Diff(content, files(t, to)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	for _, r := range []*programtest.Result{
		saved(t, project(t), inputs{"url": server.URL + "/main?signature=another-s3cret"}),
		restored(t, t.TempDir(), inputs{"urls": map[string]string{"main": server.URL + "/main?signature=another-s3cret"}}),
	} {
		if r.Err != nil || !strings.Contains(r.Log, "warning: ") || !strings.Contains(r.Log, "403") || strings.Contains(r.Log, "s3cret") {
			t.Errorf("a refusal gives %v\n%s", r.Err, r.Log)
		}
	}
}

func TestLargeArchivesAreNotKept(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]string{0: "true", 100: "false", 1 << 20: "true"} {
		sent := false
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent = true }))
		defer server.Close()
		r := saved(t, project(t), inputs{"url": server.URL + "/main?signature=s3cret", "max_size": size})
		if r.Err != nil || r.Output("saved") != want || sent != (want == "true") {
			t.Errorf("at most %d: got %v, %v\n%s", size, r.Err, r.Outputs, r.Log)
		}
		if want == "false" && (!strings.Contains(r.Log, "warning: the cache main is not kept: its archive has ") || !strings.Contains(r.Log, "the store takes at most 100")) {
			t.Errorf("got\n%s", r.Log)
		}
	}
}

func TestAddressesOfAzureGetTheHeaderThatTheyNeed(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{"https://account.blob.core.windows.net/c/key?sig=x": "BlockBlob", "https://host/key": ""} {
		h := http.Header{}
		if _, err := newAddress(nil, target, h); err != nil || h.Get("X-Ms-Blob-Type") != want {
			t.Errorf("%s: got %v, %v", target, h, err)
		}
	}
}

func TestStoresThatCannotBeReachedAreWarnings(t *testing.T) {
	t.Parallel()
	store := buckettest.S3(t, "us-east-1", false)
	store.Fail = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
	location := "s3://bucket?endpoint=" + store.URL
	env := []string{"AWS_ACCESS_KEY_ID=" + buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY=" + buckettest.SecretKey}
	r := saved(t, project(t), inputs{"location": location}, env...)
	if r.Err != nil || r.Output("saved") != "false" || !strings.Contains(r.Log, "warning: the cache main is not kept: ") {
		t.Errorf("saving gives %v, %v\n%s", r.Err, r.Outputs, r.Log)
	}
	r = restored(t, t.TempDir(), inputs{"location": location}, env...)
	if r.Err != nil || !strings.Contains(r.Log, "warning: the cache main is not unpacked: ") || !strings.Contains(r.Log, "trying again") {
		t.Errorf("restoring gives %v\n%s", r.Err, r.Log)
	}
	for _, r := range []*programtest.Result{restored(t, t.TempDir(), inputs{"location": "s3://bucket"}), restored(t, t.TempDir(), inputs{})} {
		if r.Err != nil || r.Log == "" {
			t.Errorf("got %v\n%s", r.Err, r.Log)
		}
	}
	if r := saved(t, project(t), inputs{"location": "s3://bucket"}); r.Err == nil || !strings.Contains(r.Err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("saving without credentials gives %v", r.Err)
	}
}

func TestNothingToKeepIsAWarning(t *testing.T) {
	t.Parallel()
	location := t.TempDir()
	r := saved(t, project(t), inputs{"paths": []string{"nowhere/**"}, "location": location})
	if r.Err != nil || r.Output("saved") != "false" || !strings.Contains(r.Log, "warning: there are no files for the cache main") {
		t.Errorf("got %v, %v\n%s", r.Err, r.Outputs, r.Log)
	}
	if got := files(t, location); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
}

func TestUntrackedFiles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git: ", err)
	}
	dir, location, to := project(t), t.TempDir(), t.TempDir()
	programtest.Write(t, dir, map[string]string{".gitignore": "built/\n", "built/out.bin": "out", "new ü.txt": "new", "tracked.txt": "tracked"})
	want := map[string]string{"built/out.bin": "out", "new ü.txt": "new"}
	if runtime.GOOS == "linux" {
		programtest.Write(t, dir, map[string]string{"line\nbreak": "odd"})
		want["line\nbreak"] = "odd"
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", ".gitignore", "tracked.txt", "main.go", "deps"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if r := saved(t, dir, inputs{"paths": []string{}, "untracked": true, "location": location}); r.Err != nil || r.Output("saved") != "true" {
		t.Fatalf("%v\n%s", r.Err, r.Log)
	}
	if r := restored(t, to, inputs{"location": location}); r.Err != nil {
		t.Fatal(r.Err)
	}
	got := files(t, to)
	delete(got, "built/")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestUntrackedFilesOutsideOfARepositoryAreAWarning(t *testing.T) {
	t.Parallel()
	dir := project(t)
	r := saved(t, dir, inputs{"untracked": true, "location": t.TempDir()}, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if r.Err != nil || r.Output("saved") != "true" || !strings.Contains(r.Log, "warning: untracked files are left out") {
		t.Errorf("got %v, %v\n%s", r.Err, r.Outputs, r.Log)
	}
}
