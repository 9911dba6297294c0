package release

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/programtest"
	"github.com/rungci/rung/steps/catalog/transfer"
)

func TestMain(m *testing.M) {
	clientHook = func(c *transfer.Client) { c.Wait = func(context.Context, time.Duration) error { return nil } }
	os.Exit(m.Run())
}

func run(t *testing.T, dir string, in map[string]any) *programtest.Result {
	t.Helper()
	all := map[string]any{
		"tag_name": "v1", "tag_message": "", "name": "", "description": "", "ref": "", "milestones": []string{}, "released_at": "",
		"assets": []any{}, "api_url": "", "project": "", "token": "", "record": "",
	}
	for name, v := range in {
		all[name] = v
	}
	return programtest.Run(t, Run, dir, all)
}

// api is POST /projects/:id/releases as GitLab documents it, and strict.
type api struct {
	fail     []int
	requests int
	path     string
	header   http.Header
	body     map[string]any
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests++
	refuse := func(status int, why string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%q}`, why)
	}
	if len(a.fail) > 0 {
		refuse(a.fail[0], "as the test says")
		a.fail = a.fail[1:]
		return
	}
	a.path, a.header, a.body = r.URL.EscapedPath(), r.Header.Clone(), nil
	text, _ := io.ReadAll(r.Body)
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(a.path, "/releases"):
		refuse(404, "404 Not Found")
	case r.Header.Get("Job-Token") != "glcbt-s3cret" && r.Header.Get("Private-Token") != "glpat-s3cret":
		refuse(401, "401 Unauthorized")
	case r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(text, &a.body) != nil:
		refuse(400, "the body is not JSON")
	case a.body["tag_name"] == nil:
		refuse(400, "tag_name is missing")
	default:
		for name := range a.body {
			if !strings.Contains(" tag_name tag_message name description ref milestones released_at assets ", " "+name+" ") {
				refuse(400, name+" is not known")
				return
			}
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"tag_name":"v1","_links":{"self":"https://gitlab.example/group/project/-/releases/v1"}}`)
	}
}

func TestReleasesOnGitLab(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ token, header string }{
		"with the token of a job":    {"glcbt-s3cret", "Job-Token"},
		"with the token of somebody": {"glpat-s3cret", "Private-Token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &api{}
			server := httptest.NewServer(a)
			defer server.Close()
			r := run(t, t.TempDir(), map[string]any{
				"tag_name": "v1/2", "tag_message": "annotated", "name": "First", "description": "What is new:\n- all", "ref": "main",
				"milestones": []string{"m1", "m2"}, "released_at": "2026-01-31T12:00:00Z",
				"assets":  []any{map[string]string{"name": "bin", "url": "https://example.com/bin", "filepath": "/bin", "link_type": "package"}},
				"api_url": server.URL + "/api/v4/", "project": "group/sub project", "token": tc.token,
			})
			if r.Err != nil || r.Output("url") != "https://gitlab.example/group/project/-/releases/v1" || strings.Contains(r.Log, "s3cret") {
				t.Fatalf("got %q, %v\n%s", r.Output("url"), r.Err, r.Log)
			}
			if a.path != "/api/v4/projects/group%2Fsub%20project/releases" || a.header.Get(tc.header) != tc.token {
				t.Errorf("the request was for %s with %v", a.path, a.header)
			}
			want := map[string]any{
				"tag_name": "v1/2", "tag_message": "annotated", "name": "First", "description": "What is new:\n- all", "ref": "main",
				"milestones": []any{"m1", "m2"}, "released_at": "2026-01-31T12:00:00Z",
				"assets": map[string]any{"links": []any{map[string]any{"name": "bin", "url": "https://example.com/bin", "direct_asset_path": "/bin", "link_type": "package"}}},
			}
			if diff := cmp.Diff(want, a.body); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestAnswersOfGitLab(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		fail     []int
		token    string
		requests int
		want     string
	}{
		{name: "a busy server is asked again", fail: []int{503, 429}, token: "glcbt-s3cret", requests: 3},
		{name: "a release that is there is an error", fail: []int{409}, token: "glcbt-s3cret", requests: 1, want: "delete the release first"},
		{name: "a server that broke in the middle is not asked again", fail: []int{500}, token: "glcbt-s3cret", requests: 1, want: "500"},
		{name: "a wrong token", token: "glcbt-another-s3cret", requests: 1, want: "may not make releases"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &api{fail: tc.fail}
			server := httptest.NewServer(a)
			defer server.Close()
			r := run(t, t.TempDir(), map[string]any{"api_url": server.URL, "project": "7", "token": tc.token})
			if (r.Err == nil) != (tc.want == "") || a.requests != tc.requests {
				t.Fatalf("after %d requests: %v", a.requests, r.Err)
			}
			if r.Err != nil && (!strings.Contains(r.Err.Error(), tc.want) || strings.Contains(r.Err.Error(), "s3cret")) {
				t.Errorf("got %v", r.Err)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programtest.Write(t, dir, map[string]string{"NEWS.md": "the news\n", "sub/": ""})
	r := run(t, dir, map[string]any{"tag_name": "../v1", "description": "./NEWS.md", "record": "releases"})
	if r.Err != nil || r.Output("url") != filepath.Join(dir, "releases", "%2E.%2Fv1.json") {
		t.Fatalf("got %q, %v", r.Output("url"), r.Err)
	}
	text, err := os.ReadFile(r.Output("url"))
	if want := "{\n  \"tag_name\": \"../v1\",\n  \"description\": \"the news\\n\"\n}\n"; err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "releases")); len(left) != 1 {
		t.Errorf("there is %v", left)
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{"v1.2.3": "v1.2.3.json", "..": "%2E..json", "a/b\\c": "a%2Fb%5Cc.json", "a%2Fb": "a%252Fb.json", "ü\n": "%C3%BC%0A.json", ".hidden": "%2Ehidden.json", "v1+x_y-z": "v1+x_y-z.json"} {
		if got := FileName(tag); got != want {
			t.Errorf("%q: got %s, want %s", tag, got, want)
		}
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	programtest.Write(t, dir, map[string]string{"NEWS.md": "the news", "sub/notes": "the notes", "../secret.md": "s3cret", "bytes": "\xff"})
	for words, want := range map[string]string{
		"":               "",
		"just words":     "just words",
		"NEWS.md":        "the news",
		"sub/notes":      "the notes",
		"sub/../NEWS.md": "the news",
		"sub":            "sub",
		"none.md":        "none.md",
		"NEWS.md\n":      "NEWS.md\n",
		"/etc/hostname":  "/etc/hostname",
		"../none.md":     "../none.md",
	} {
		if got, err := description(dir, words); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", words, got, err, want)
		}
	}
	wrong := []string{"../secret.md", "sub/../../secret.md", "bytes"}
	if runtime.GOOS != "windows" {
		if err := os.Symlink("../secret.md", filepath.Join(dir, "link.md")); err != nil {
			t.Fatal(err)
		}
		wrong = append(wrong, "link.md")
	}
	for _, words := range wrong {
		if got, err := description(dir, words); err == nil {
			t.Errorf("%q gives %q", words, got)
		}
	}
}

func TestInputsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	link := func(a map[string]string) map[string]any { return map[string]any{"record": "r", "assets": []any{a}} }
	for name, in := range map[string]map[string]any{
		"nowhere to go":            {},
		"no tag":                   {"tag_name": " ", "record": "r"},
		"GitLab without a token":   {"api_url": "http://127.0.0.1:1", "project": "7"},
		"GitLab without a project": {"api_url": "http://127.0.0.1:1", "token": "s3cret"},
		"a wrong time":             {"record": "r", "released_at": "yesterday"},
		"a link without a name":    link(map[string]string{"url": "https://host/"}),
		"a link without a url":     link(map[string]string{"name": "a"}),
		"a link of no address":     link(map[string]string{"name": "a", "url": "javascript:alert(1)"}),
		"a link of no type":        link(map[string]string{"name": "a", "url": "https://host/", "link_type": "colour"}),
		"a link of unknown keys":   link(map[string]string{"name": "a", "url": "https://host/", "colour": "red"}),
	} {
		if r := run(t, t.TempDir(), in); r.Err == nil || strings.Contains(r.Err.Error(), "s3cret") {
			t.Errorf("%s gives %v", name, r.Err)
		}
	}
}
