package fakegitlab_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/rungci/rung/dev/fakegitlab"
	api "github.com/rungci/rung/manager/gitlab"
)

// browser is somebody with a browser.
type browser struct {
	*http.Client
	f *fixture
}

func (f *fixture) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return &browser{&http.Client{Jar: jar}, f}
}

// get returns a page and its status.
func (b *browser) get(address string) (string, int) {
	b.f.t.Helper()
	got, err := b.Get(address)
	return b.read(got, err)
}

func (b *browser) read(got *http.Response, err error) (string, int) {
	b.f.t.Helper()
	if err != nil {
		b.f.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.f.t.Fatal(err)
	}
	return string(text), got.StatusCode
}

// press sends a form, from a page at origin.
func (b *browser) press(path, origin string, values url.Values) (string, int) {
	b.f.t.Helper()
	r, err := http.NewRequestWithContext(b.f.t.Context(), http.MethodPost, b.f.url+path, strings.NewReader(values.Encode()))
	if err != nil {
		b.f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	return b.read(b.Do(r))
}

// wants checks what a page holds.
func (f *fixture) wants(page string, texts ...string) {
	f.t.Helper()
	for _, want := range texts {
		if !strings.Contains(page, want) {
			f.t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

func TestThePageIsForWhoHasItsAddress(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": "job: {script: x}"})
	b := f.browser()
	for _, path := range []string{"/", "/-/pipelines/1", "/-/jobs/1/raw", "/-/page.js", "/-/enter?token=other"} {
		if _, status := b.get(f.url + path); status != http.StatusForbidden {
			t.Errorf("%s without the token: %d", path, status)
		}
	}
	if _, status := b.press("/-/pipelines", f.url, nil); status != http.StatusForbidden || len(f.Pipelines()) != 0 {
		t.Errorf("a pipeline without the token: %d", status)
	}
	page, status := b.get(f.PageURL())
	if status != http.StatusOK {
		t.Fatalf("with the token: %d", status)
	}
	f.wants(page, "Run pipeline", "There is none yet")
	cookies := b.Jar.Cookies(&url.URL{Scheme: "http", Host: strings.TrimPrefix(f.url, "http://"), Path: "/"})
	if len(cookies) != 1 {
		t.Errorf("cookies are %v", cookies)
	}

	// Another page asks for it, or a name that leads here and is not the server's.
	for _, origin := range []string{"", "null", "http://evil.example", "https://" + strings.TrimPrefix(f.url, "http://")} {
		if _, status := b.press("/-/pipelines", origin, nil); status != http.StatusForbidden || len(f.Pipelines()) != 0 {
			t.Errorf("from %q: %d", origin, status)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.PageURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	if _, status := b.read(b.Do(r)); status != http.StatusMisdirectedRequest {
		t.Errorf("with another name: %d", status)
	}
}

func TestAPipelineOnThePage(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": `
workflow: {name: <b>nightly</b>}
build: {stage: build, script: x}
by hand: {stage: deploy, script: x, when: manual}
`})
	b := f.browser()
	b.get(f.PageURL())
	page, status := b.press("/-/pipelines", f.url, nil)
	if status != http.StatusOK {
		t.Fatal(status, page)
	}
	f.wants(page, "<h1>Pipeline 1: &lt;b&gt;nightly&lt;/b&gt;</h1>", `<span class="state pending">pending</span>`, "data-live", "Cancel pipeline", `aria-label="Cancel build"`)
	job := f.next()
	ref := api.Ref{ID: job.ID, Token: job.Token}
	log := "2026-01-02T03:04:05.678901Z 01O \x1b[32;1m$ make\x1b[0m\n" +
		"2026-01-02T03:04:05.678901Z 00O section_start:1:get_sources[collapsed=true]\r\x1b[0K\n2026-01-02T03:04:05.678901Z 00O+<script>alert(1)</script>\n" +
		"2026-01-02T03:04:06.678901Z 01E \x1b]0;windowname\x07\x1b[38;5;9mred?\x1b[2J\x1b[31mred\x1b[0m\n" +
		"2026-01-02T03:04:06.678901Z 00O section_end:1:get_sources\r\x1b[0K\n50%\r100%\n"
	if _, _, err := f.client.PatchTrace(t.Context(), ref, 0, io.NewSectionReader(strings.NewReader(log), 0, int64(len(log))), false); err != nil {
		t.Fatal(err)
	}
	page, _ = b.get(f.url + "/-/jobs/" + number(job.ID))
	f.wants(page, `<time datetime="2026-01-02T03:04:05.678901Z">03:04:05</time> <span class="b c32">$ make</span>`, "<details><summary><span class=\"line\"><time datetime=\"2026-01-02T03:04:05.678901Z\">03:04:05</time> &lt;script&gt;alert(1)&lt;/script&gt;</span>\n</summary>",
		`red?<span class="c31">red</span>`, "</details>", ">100%<")
	for _, wrong := range []string{"<script>alert", "windowname", "\x1b", "50%"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page has %q", wrong)
		}
	}
	if raw, _ := b.get(f.url + "/-/jobs/" + number(job.ID) + "/raw"); raw != log {
		t.Errorf("the log is %q", raw)
	}
	upload(t, f, ref, "artifacts.zip", "PK")
	f.update(job, failure)
	f.until(1, "build failed, by hand skipped")
	page, _ = b.get(f.url + "/-/jobs/" + number(job.ID))
	f.wants(page, "script_failure, exit code 3", `href="/-/jobs/1/artifacts/0" download>artifacts.zip</a>`, `aria-label="Run build again"`)
	if data, _ := b.get(f.url + "/-/jobs/1/artifacts/0"); data != "PK" {
		t.Errorf("the artifact is %q", data)
	}
	if _, status := b.get(f.url + "/-/jobs/1/artifacts/1"); status != http.StatusNotFound {
		t.Errorf("an artifact that there is not: %d", status)
	}

	// Again, and then by hand.
	b.press("/-/pipelines/1/jobs/retry", f.url, url.Values{"name": {"build"}})
	f.ended("build", success)
	f.until(1, "build success, by hand manual")
	if page, _ = b.get(f.url + "/-/pipelines/1"); strings.Contains(page, "data-live") {
		t.Error("the page waits for something")
	}
	f.wants(page, "attempt 2", `aria-label="Start by hand"`)
	b.press("/-/pipelines/1/jobs/play", f.url, url.Values{"name": {"by hand"}})
	f.until(1, "build success, by hand pending")
	b.press("/-/pipelines/1/jobs/cancel", f.url, url.Values{"name": {"by hand"}})
	f.until(1, "build success, by hand canceled")
	for path, want := range map[string]int{"/-/pipelines/1/jobs/play": http.StatusConflict, "/-/pipelines/1/jobs/eat": http.StatusConflict} {
		if _, status := b.press(path, f.url, url.Values{"name": {"build"}}); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	b.press("/-/pipelines", f.url, nil)
	b.press("/-/pipelines/2/cancel", f.url, nil)
	f.until(2, "build canceled, by hand canceled")
	page, _ = b.get(f.url + "/")
	f.wants(page, `href="/-/pipelines/1"`, `href="/-/pipelines/2"`)
}

func number(id int64) string { return strconv.FormatInt(id, 10) }

// upload uploads an archive of artifacts, as a runner does.
func upload(t *testing.T, f *fixture, job api.Ref, name, data string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(part, data)
	_ = form.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/api/v4/jobs/"+number(job.ID)+"/artifacts?artifact_type=archive&artifact_format=zip", &body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("JOB-TOKEN", job.Token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusCreated {
		t.Fatal(got.Status)
	}
}

func TestADefinitionThatIsWrongIsShown(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": "job: {script: x, when: <sometimes>}"})
	b := f.browser()
	b.get(f.PageURL())
	page, _ := b.press("/-/pipelines", f.url, nil)
	f.wants(page, "The pipeline could not be made", ".gitlab-ci.yml:1", "&lt;sometimes&gt;")
}

func TestLinesForATerminal(t *testing.T) {
	log := "2026-01-02T03:04:05.678901Z 01O \x1b[32;1m$ make\x1b[0m\n2026-01-02T03:04:05.678901Z 00O section_start:1:x\r\x1b[0K\x1b[0K\n2026-01-02T03:04:05.678901Z 01O a\x1b[2Jb\x07\nunfinished"
	lines, read := fakegitlab.Lines([]byte(log), false)
	if got := strings.Join(lines, "|"); got != "$ make|ab" {
		t.Errorf("%q", got)
	}
	if log[read:] != "unfinished" {
		t.Errorf("%q is left", log[read:])
	}
	if lines, _ = fakegitlab.Lines([]byte(log), true); lines[0] != "\x1b[32;1m$ make\x1b[0m" {
		t.Errorf("%q", lines[0])
	}
}
