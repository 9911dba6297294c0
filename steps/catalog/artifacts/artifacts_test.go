package artifacts

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/programtest"
	"github.com/rungci/rung/steps/catalog/transfer"
	"github.com/rungci/rung/steps/source/tree"
)

func TestMain(m *testing.M) {
	clientHook = func(c *transfer.Client) { c.Wait = func(context.Context, time.Duration) error { return nil } }
	os.Exit(m.Run())
}

type inputs map[string]any

func upload(t *testing.T, dir string, in inputs) *programtest.Result {
	t.Helper()
	all := inputs{
		"name": "artifacts", "paths": []string{}, "exclude": []string{}, "untracked": false, "type": "archive", "format": "zip",
		"expire_in": "", "access": "", "location": "", "url": "", "token": "", "metadata": inputs{}, "level": "default", "timeout": 0, "response_timeout": 0,
	}
	for name, v := range in {
		all[name] = v
	}
	return programtest.Run(t, Upload, dir, all)
}

func download(t *testing.T, dir string, attempts int, from ...inputs) *programtest.Result {
	t.Helper()
	return programtest.Run(t, Download, dir, inputs{"from": from, "attempts": attempts})
}

func project(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	programtest.Write(t, dir, map[string]string{
		"out/program": "program", "out/debug/program.map": "map", "report.xml": "<one/>", "more.xml": "<two/>", "../outside.txt": "outside", ".git/config": "[core]", "empty/": "",
	})
	return dir
}

// inZip returns the names in an archive.
func inZip(t *testing.T, archive []byte) []string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	return names
}

func TestUploadToAFolder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		in   inputs
		file string
		want []string // in a zip archive
		log  string
	}{
		{name: "an archive", in: inputs{"paths": []string{"out"}}, file: "artifacts.zip", want: []string{"out/", "out/debug/", "out/debug/program.map", "out/program"}},
		{name: "a name of its own", in: inputs{"name": "binaries", "paths": []string{"out/program"}}, file: "binaries.zip", want: []string{"out/program"}},
		{name: "a name that would leave", in: inputs{"name": "../../b:n", "paths": []string{"out/program"}}, file: "b_n.zip", want: []string{"out/program"}},
		{name: "a name of nothing", in: inputs{"name": "..", "paths": []string{"out/program"}}, file: "artifacts.zip", want: []string{"out/program"}},
		{name: "without what is excluded", in: inputs{"paths": []string{"out/**"}, "exclude": []string{"out/debug/**"}}, file: "artifacts.zip", want: []string{"out/", "out/program"}, log: "leaves out"},
		{name: "a format of Zstandard", in: inputs{"paths": []string{"out"}, "format": "tarzstd"}, file: "artifacts.tar.zst"},
		{name: "a path outside is refused", in: inputs{"paths": []string{"../outside.txt", "out/program"}}, file: "artifacts.zip", want: []string{"out/program"}, log: `warning: "../outside.txt" is ignored`},
		{name: "case 75: .git is a warning", in: inputs{"paths": []string{".git"}}, file: "artifacts.zip", want: []string{".git/", ".git/config"}, log: "warning: part of the project's .git folder"},
		{name: "a pattern of nothing beside one of something", in: inputs{"paths": []string{"no/*", "out/program"}}, file: "artifacts.zip", want: []string{"out/program"}, log: `warning: "no/*": no matching files`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, location := project(t), t.TempDir()
			tc.in["location"] = location
			r := upload(t, dir, tc.in)
			if r.Err != nil || r.Output("file") != tc.file || !strings.Contains(r.Log, tc.log) {
				t.Fatalf("got %q, %v\n%s", r.Output("file"), r.Err, r.Log)
			}
			archive, err := os.ReadFile(filepath.Join(location, tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(r.Output("digest"), "sha256:") || r.Output("bytes") != fmt.Sprint(len(archive)) {
				t.Errorf("the outputs are %v", r.Outputs)
			}
			if tc.want != nil {
				if diff := cmp.Diff(tc.want, inZip(t, archive)); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
			}
			if left, _ := os.ReadDir(location); len(left) != 1 {
				t.Errorf("beside it there is %v", left)
			}
		})
	}
}

func TestNothingThatMatchesIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]inputs{
		"no pattern":               {},
		"a pattern of nothing":     {"paths": []string{"nowhere/**"}},
		"a path outside":           {"paths": []string{"../outside.txt"}},
		"everything excluded":      {"paths": []string{"**"}, "exclude": []string{"**/*"}},
		"a report of folders only": {"paths": []string{"empty"}, "type": "junit", "format": "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location := t.TempDir()
			in["location"] = location
			r := upload(t, project(t), in)
			if r.Err != nil || r.Output("file") != "" || r.Output("files") != "0" || !strings.Contains(r.Log, "warning: no files to upload") {
				t.Errorf("got %v, %v\n%s", r.Outputs, r.Err, r.Log)
			}
			if left, _ := os.ReadDir(location); len(left) > 0 {
				t.Errorf("there is %v", left)
			}
		})
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	dir, location := project(t), t.TempDir()
	r := upload(t, dir, inputs{"paths": []string{"*.xml"}, "type": "junit", "format": "gzip", "location": location})
	if r.Err != nil || r.Output("file") != "junit.gz" || r.Output("files") != "2" {
		t.Fatalf("got %v, %v\n%s", r.Outputs, r.Err, r.Log)
	}
	f, err := os.Open(filepath.Join(location, "junit.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != "<two/><one/>" {
		t.Errorf("got %q, %v", text, err)
	}
	if r = upload(t, dir, inputs{"paths": []string{"report.xml"}, "type": "metrics", "format": "raw", "location": location}); r.Err != nil || r.Output("file") != "metrics" {
		t.Errorf("a raw file gives %v, %v", r.Outputs, r.Err)
	}
	if r = upload(t, dir, inputs{"paths": []string{"*.xml"}, "type": "metrics", "format": "raw", "location": location}); r.Err == nil {
		t.Error("case 74: two files can be one raw file")
	}
	for _, kind := range []string{"../junit", "a/b", "..", ""} {
		r := upload(t, dir, inputs{"paths": []string{"report.xml"}, "type": kind, "location": location})
		if (r.Err != nil) != (kind != "") {
			t.Errorf("the type %q gives %v", kind, r.Err)
		}
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	location := t.TempDir()
	r := upload(t, project(t), inputs{"paths": []string{"out"}, "name": "bin", "location": location, "metadata": inputs{
		"source": "https://gitlab.example/group/project", "builder": "12", "entry_point": "build", "job_id": "7",
		"variables": []string{"CI", "TOKEN"}, "started_on": "2026-01-02T03:04:05Z", "commit": "abc",
	}})
	if r.Err != nil {
		t.Fatalf("%v\n%s", r.Err, r.Log)
	}
	text, err := os.ReadFile(filepath.Join(location, "bin-metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct{ ExternalParameters map[string]string }
			RunDetails      struct {
				Builder  struct{ ID string }
				Metadata struct{ InvocationID, StartedOn string }
			}
		}
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("program"))
	p := statement.Predicate
	if len(statement.Subject) != 2 || statement.Subject[1].Name != "out/program" || statement.Subject[1].Digest["sha256"] != hex.EncodeToString(sum[:]) ||
		p.RunDetails.Builder.ID != "https://gitlab.example/group/project/-/runners/12" || p.RunDetails.Metadata.InvocationID != "7" ||
		p.RunDetails.Metadata.StartedOn != "2026-01-02T03:04:05Z" || p.BuildDefinition.ExternalParameters["entryPoint"] != "build" {
		t.Errorf("got %s", text)
	}
	if _, ok := p.BuildDefinition.ExternalParameters["TOKEN"]; !ok || p.BuildDefinition.ExternalParameters["TOKEN"] != "" {
		t.Errorf("the variables are %v", p.BuildDefinition.ExternalParameters)
	}
	if r := upload(t, project(t), inputs{"paths": []string{"out"}, "location": location, "metadata": inputs{"job_id": "7", "started_on": "yesterday"}}); r.Err == nil {
		t.Error("a wrong time is taken")
	}
	if r := upload(t, project(t), inputs{"paths": []string{"out"}, "location": location, "metadata": inputs{"colour": "red"}}); r.Err == nil {
		t.Error("an unknown key is taken")
	}
}

// gitlab is GitLab's API for the artifacts of job 7, as it is documented, and strict.
type gitlab struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex

	fail     []int // answers of the next requests
	redirect string
	query    map[string][]string
	filename string
	content  []byte
	requests int
}

const token = "glcbt-s3cret"

func startGitLab(t *testing.T) *gitlab {
	t.Helper()
	g := &gitlab{t: t}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *gitlab) address() string { return g.URL + "/api/v4/jobs/7/artifacts" }

func (g *gitlab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	refuse := func(status int, why string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%q}`, why)
	}
	if len(g.fail) > 0 {
		status := g.fail[0]
		g.fail = g.fail[1:]
		refuse(status, "as the test says")
		return
	}
	switch {
	case r.Header.Get("Job-Token") != token:
		refuse(403, "403 Forbidden")
	case r.URL.Path != "/api/v4/jobs/7/artifacts":
		refuse(404, "404 Not Found")
	case r.Method == http.MethodPost:
		g.post(w, r, refuse)
	case r.Method != http.MethodGet:
		refuse(405, "405 Method Not Allowed")
	case r.URL.Query().Get("direct_download") != "true":
		refuse(400, "the artifacts are not asked for directly")
	case g.redirect != "":
		http.Redirect(w, r, g.redirect, http.StatusFound)
	case g.content == nil:
		refuse(404, "404 Not Found")
	default:
		_, _ = w.Write(g.content)
	}
}

func (g *gitlab) post(w http.ResponseWriter, r *http.Request, refuse func(int, string)) {
	g.query = r.URL.Query()
	for name := range g.query {
		if !slices.Contains([]string{"artifact_format", "artifact_type", "expire_in", "accessibility"}, name) {
			refuse(400, name+" is not a parameter")
			return
		}
	}
	reader, err := r.MultipartReader()
	if err != nil {
		refuse(400, err.Error())
		return
	}
	part, err := reader.NextPart()
	if err != nil || part.FormName() != "file" || r.ContentLength <= 0 {
		refuse(400, "there is no file, or its length is not known")
		return
	}
	g.filename = part.FileName()
	if g.content, err = io.ReadAll(part); err == nil {
		if _, err = reader.NextPart(); err == io.EOF {
			err = nil
		}
	}
	if err != nil {
		refuse(400, err.Error())
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "201")
}

func TestUploadToGitLab(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		in    inputs
		file  string
		query map[string][]string
	}{
		{
			name: "an archive", in: inputs{"name": "bin", "expire_in": "1 week", "access": "developer"}, file: "bin.zip",
			query: map[string][]string{"artifact_format": {"zip"}, "artifact_type": {"archive"}, "expire_in": {"1 week"}, "accessibility": {"private"}},
		},
		{
			name: "an archive for everybody", in: inputs{"access": "all"}, file: "artifacts.zip",
			query: map[string][]string{"artifact_format": {"zip"}, "artifact_type": {"archive"}, "accessibility": {"public"}},
		},
		{
			name: "a report", in: inputs{"type": "junit", "format": "gzip", "name": "junit.xml"}, file: "junit.xml.gz",
			query: map[string][]string{"artifact_format": {"gzip"}, "artifact_type": {"junit"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := startGitLab(t)
			tc.in["url"], tc.in["token"], tc.in["paths"] = g.address(), token, []string{"out/program"}
			r := upload(t, project(t), tc.in)
			if r.Err != nil || r.Output("file") != tc.file || g.filename != tc.file || strings.Contains(r.Log, "s3cret") {
				t.Fatalf("got %q as %q, %v\n%s", r.Output("file"), g.filename, r.Err, r.Log)
			}
			if diff := cmp.Diff(tc.query, g.query); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			if r.Output("bytes") != fmt.Sprint(len(g.content)) {
				t.Errorf("%s bytes were sent, and %d came", r.Output("bytes"), len(g.content))
			}
		})
	}
}

func TestMetadataForGitLabArePartOfTheArchive(t *testing.T) {
	t.Parallel()
	g, dir := startGitLab(t), project(t)
	r := upload(t, dir, inputs{"url": g.address(), "token": token, "paths": []string{"out/program"}, "metadata": inputs{"job_id": "7"}})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if diff := cmp.Diff([]string{"artifacts-metadata.json", "out/program"}, inZip(t, g.content)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "artifacts-metadata.json")); err == nil {
		t.Error("the metadata are left in the work directory")
	}
}

func TestAnswersOfGitLab(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		fail     []int
		requests int
		want     string // of the error
	}{
		{name: "a busy server is asked six times", fail: []int{503, 503, 503, 503, 503}, requests: 6},
		{name: "and not a seventh time", fail: []int{503, 503, 503, 503, 503, 503, 503}, requests: 6, want: "503"},
		{name: "a broken server is asked three times", fail: []int{500, 502, 500, 500}, requests: 3, want: "500"},
		{name: "a file that is too large is not sent again", fail: []int{413}, requests: 1, want: "leave files out"},
		{name: "a refusal is final", fail: []int{403}, requests: 1, want: "the job's token is wrong"},
		{name: "a wrong report is final", fail: []int{400}, requests: 1, want: "as the test says"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := startGitLab(t)
			g.fail = tc.fail
			r := upload(t, project(t), inputs{"url": g.address(), "token": token, "paths": []string{"out"}})
			if (r.Err == nil) != (tc.want == "") || g.requests != tc.requests {
				t.Fatalf("after %d requests: %v", g.requests, r.Err)
			}
			if r.Err != nil && (!strings.Contains(r.Err.Error(), tc.want) || strings.Contains(r.Err.Error(), "s3cret")) {
				t.Errorf("got %v", r.Err)
			}
		})
	}
}

func TestAnUploadToASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-end }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(end) })
	for limit, want := range map[string]string{"timeout": "it took longer than 50ms", "response_timeout": "nothing moved for 50ms"} {
		r := upload(t, project(t), inputs{"url": silent.URL, "token": token, "paths": []string{"out"}, limit: 0.05})
		if r.Err == nil || !strings.Contains(r.Err.Error(), want) {
			t.Errorf("%s: %v", limit, r.Err)
		}
	}
}

func TestAGitLabWithACAOfItsOwn(t *testing.T) {
	t.Parallel()
	g := &gitlab{t: t}
	g.Server = httptest.NewUnstartedServer(g)
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.StartTLS()
	t.Cleanup(g.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"": "certificate", ca: "", filepath.Join(dir, "none"): "ca_file: open "} {
		r := upload(t, project(t), inputs{"url": g.address(), "token": token, "paths": []string{"out"}, "ca_file": file})
		if r.Err == nil {
			r = programtest.Run(t, Download, t.TempDir(), inputs{"from": []inputs{{"name": "build", "url": g.address(), "token": token}}, "attempts": 1, "ca_file": file})
		}
		if (r.Err == nil) != (want == "") || r.Err != nil && !strings.Contains(r.Err.Error(), want) {
			t.Errorf("%q: %v", file, r.Err)
		}
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	location := t.TempDir()
	if r := upload(t, project(t), inputs{"paths": []string{"out"}, "location": location}); r.Err != nil {
		t.Fatal(r.Err)
	}
	archive, err := os.ReadFile(filepath.Join(location, "artifacts.zip"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, dir string, r *programtest.Result) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "out/program"))
		if r.Err != nil || err != nil || string(text) != "program" || r.Output("files") != "4" {
			t.Errorf("got %v, %q, %v\n%s", r.Outputs, text, r.Err, r.Log)
		}
	}
	t.Run("from a folder", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		check(t, dir, download(t, dir, 1, inputs{"name": "build", "file": filepath.Join(location, "artifacts.zip")}))
	})
	t.Run("from GitLab", func(t *testing.T) {
		t.Parallel()
		g, dir := startGitLab(t), t.TempDir()
		g.content = archive
		check(t, dir, download(t, dir, 1, inputs{"name": "build", "url": g.address(), "token": token}))
	})
	t.Run("from an object store, which does not get the token", func(t *testing.T) {
		t.Parallel()
		g, dir := startGitLab(t), t.TempDir()
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, values := range r.Header {
				if strings.Contains(strings.Join(values, ""), "s3cret") {
					t.Errorf("the store got %s", name)
				}
			}
			_, _ = w.Write(archive)
		}))
		defer store.Close()
		g.redirect = store.URL + "/bucket/artifacts.zip?signature=x"
		check(t, dir, download(t, dir, 1, inputs{"name": "build", "url": g.address(), "token": token}))
	})
	t.Run("from a server that fails at first", func(t *testing.T) {
		t.Parallel()
		g, dir := startGitLab(t), t.TempDir()
		g.content, g.fail = archive, []int{500, 500, 500, 500}
		check(t, dir, download(t, dir, 2, inputs{"name": "build", "url": g.address(), "token": token}))
	})
	t.Run("but nothing into .git, nor through a link to it", func(t *testing.T) {
		t.Parallel()
		other, dir, second := t.TempDir(), t.TempDir(), t.TempDir()
		programtest.Write(t, other, map[string]string{".git/hooks/post-checkout": "evil", ".git/config": "evil", "kept": "kept"})
		if r := upload(t, other, inputs{"paths": []string{".git", "kept"}, "location": second}); r.Err != nil {
			t.Fatal(r.Err)
		}
		programtest.Write(t, dir, map[string]string{".git/config": "mine"})
		r := download(t, dir, 1, inputs{"name": "a", "file": filepath.Join(second, "artifacts.zip")})
		text, _ := os.ReadFile(filepath.Join(dir, ".git/config"))
		_, herr := os.Lstat(filepath.Join(dir, ".git/hooks"))
		if r.Err != nil || string(text) != "mine" || !errors.Is(herr, os.ErrNotExist) || !strings.Contains(r.Log, "left out") {
			t.Errorf("%v, %q, %v\n%s", r.Err, text, herr, r.Log)
		}
	})
	t.Run("in order, the later over the earlier", func(t *testing.T) {
		t.Parallel()
		dir, other, second := t.TempDir(), t.TempDir(), t.TempDir()
		programtest.Write(t, other, map[string]string{"out/program": "of another job"})
		if r := upload(t, other, inputs{"paths": []string{"out/program"}, "location": second}); r.Err != nil {
			t.Fatal(r.Err)
		}
		r := download(t, dir, 1, inputs{"name": "a", "file": filepath.Join(second, "artifacts.zip")}, inputs{"name": "b", "file": filepath.Join(location, "artifacts.zip")})
		if text, _ := os.ReadFile(filepath.Join(dir, "out/program")); r.Err != nil || string(text) != "program" {
			t.Errorf("got %q, %v", text, r.Err)
		}
	})
}

func TestDownloadsThatFail(t *testing.T) {
	t.Parallel()
	var planted bytes.Buffer
	w := zip.NewWriter(&planted)
	link := &zip.FileHeader{Name: "out"}
	link.SetMode(os.ModeSymlink | 0o777)
	for _, entry := range []struct {
		header  *zip.FileHeader
		content string
	}{{link, ".."}, {&zip.FileHeader{Name: "out/planted"}, "x"}} {
		f, err := w.CreateHeader(entry.header)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, entry.content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	g := startGitLab(t)
	root := t.TempDir()
	programtest.Write(t, root, map[string]string{"planted.zip": planted.String(), "cut.zip": planted.String()[:50], "work/": ""})
	for name, tc := range map[string]struct {
		from     inputs
		optional bool // whether it is not a failure when it is optional
		want     string
	}{
		"no file":                  {inputs{"file": filepath.Join(root, "none.zip")}, true, "none.zip"},
		"no artifacts on GitLab":   {inputs{"url": g.address(), "token": token}, true, "404"},
		"a wrong token":            {inputs{"url": g.address(), "token": "glcbt-another-s3cret"}, false, "the job's token is wrong"},
		"a planted symbolic link":  {inputs{"file": filepath.Join(root, "planted.zip")}, false, "refused"},
		"an archive cut short":     {inputs{"file": filepath.Join(root, "cut.zip")}, false, "cut short"},
		"neither a file nor a url": {inputs{}, false, "must have a file or a url"},
		"a file and a url":         {inputs{"file": "a", "url": "b"}, false, "must have a file or a url"},
	} {
		for _, optional := range []bool{false, true} {
			tc.from["name"], tc.from["optional"] = "build", optional
			r := download(t, filepath.Join(root, "work"), 1, tc.from)
			if (r.Err == nil) != (optional && tc.optional) {
				t.Errorf("%s, optional %v: got %v", name, optional, r.Err)
			}
			if r.Err != nil && (!strings.Contains(r.Err.Error(), tc.want) || strings.Contains(r.Err.Error(), "s3cret")) {
				t.Errorf("%s: got %v, want %q", name, r.Err, tc.want)
			}
		}
	}
	if left, _ := os.ReadDir(filepath.Join(root, "work")); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
	if _, err := os.Lstat(filepath.Join(root, "planted")); err == nil {
		t.Error("a file was planted")
	}
}

func TestInputsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]inputs{
		"nowhere to go":              {},
		"GitLab without a token":     {"url": "https://host/api/v4/jobs/7/artifacts"},
		"a format that is not known": {"location": "x", "format": "rar"},
		"a level that is not known":  {"location": "x", "level": "most"},
		"an address that is none":    {"url": "s3cret", "token": "t"},
		"an input that is not known": {"location": "x", "colour": "red"},
	} {
		in["paths"] = []string{"out"}
		if r := upload(t, project(t), in); r.Err == nil || strings.Contains(r.Err.Error(), "s3cret") {
			t.Errorf("%s gives %v", name, r.Err)
		}
	}
}

func TestTheDigestIsThatOfTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(content string, at time.Time) string {
		file := filepath.Join(dir, "out", "a")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		return upload(t, dir, map[string]any{"paths": []string{"out"}, "location": t.TempDir()}).Output("digest")
	}
	first := write("one", time.Unix(1_000_000, 0))
	want, err := tree.Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if first != want {
		t.Errorf("the digest is %s; that of a component with these files is %s", first, want)
	}
	if again := write("one", time.Unix(2_000_000, 0)); again != first {
		t.Error("the digest changes with a file's time")
	}
	if other := write("two", time.Unix(2_000_000, 0)); other == first {
		t.Error("other content has the same digest")
	}
}
