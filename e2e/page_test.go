package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Sizes that pages are opened in, in CSS pixels. Chromium has no window as narrow as a phone, so pages are opened in a frame of that size.
var sizes = map[string]size{"a desktop": {1280, 900}, "a phone": {400, 800}}

type size struct{ width, height int }

// framed writes a page with a frame of a size that shows another page, and what that reports.
func framed(t *testing.T, page string, s size) string {
	t.Helper()
	file := fmt.Sprintf("%s-%d.html", strings.TrimSuffix(page, ".html"), s.width)
	text := fmt.Sprintf(`<!doctype html><html><body><script>
addEventListener("message", (e) => { document.body.append(Object.assign(document.createElement("pre"), { id: "checked", textContent: e.data })); });
</script><iframe src=%q width="%d" height="%d" style="border: 0"></iframe></body></html>`, filepath.Base(page), s.width, s.height)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheTracePageWorksInABrowser(t *testing.T) {
	browser := chromium(t)
	page := demoPage(t)
	body := opened(t, browser, page)
	for _, want := range []string{"announce", "an earlier step failed", "exit 3", "1 test failed: TestDemo wants to show you a failure"} {
		if !strings.Contains(withoutScripts(body), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
}

// TestTheTracePageIsAccessible checks the page with axe-core, in light and dark, in every kind of step and during a search.
func TestTheTracePageIsAccessible(t *testing.T) {
	browser := chromium(t)
	axe := axeCore(t)
	page := demoPage(t)
	checked := withScripts(t, page, contents(t, axe), contents(t, filepath.Join("page", "check.js")))
	for name, s := range sizes {
		t.Run("on "+name, func(t *testing.T) { accessible(t, s, reported(t, browser, framed(t, checked, s))) })
	}
}

func TestThePageOfAPipelineIsAccessible(t *testing.T) {
	browser := chromium(t)
	axe := axeCore(t)
	dir := filepath.Dir(demoPage(t))
	transcript(t, dir, build(t), "step-runner trace export --format html -o pipeline.html trace.json trace.json")
	checked := withScripts(t, filepath.Join(dir, "pipeline.html"), contents(t, axe), contents(t, filepath.Join("page", "check.js")))
	for name, s := range sizes {
		for theme, flag := range map[string]string{"dark": "--blink-settings=preferredColorScheme=0", "light": "--blink-settings=preferredColorScheme=1"} {
			t.Run("on "+name+", "+theme, func(t *testing.T) { accessible(t, s, reported(t, browser, framed(t, checked, s), flag)) })
		}
	}
}

// accessible reports what page/check.js found.
func accessible(t *testing.T, s size, found string) {
	t.Helper()
	var got struct {
		Width, Overflow, Contrasts int
		Violations, Search         []string
	}
	if err := json.Unmarshal([]byte(found), &got); err != nil {
		t.Fatalf("reading the result: %v\n%s", err, found)
	}
	if got.Width != s.width {
		t.Errorf("the window is %d pixels wide, not %d", got.Width, s.width)
	}
	if got.Overflow > 0 {
		t.Errorf("the page is %d pixels wider than the window", got.Overflow)
	}
	if got.Contrasts == 0 {
		t.Error("no contrast was measured")
	}
	for _, problem := range append(got.Violations, got.Search...) {
		t.Error(problem)
	}
}

func TestASearchOfATracePageSaysThatItIsNotOfTheWholeLog(t *testing.T) {
	browser := chromium(t)
	bin := build(t)
	dir := workTree(t)
	steps := "run:\n  - name: long\n    script: seq 100000 400000\n"
	if err := os.WriteFile(filepath.Join(dir, "long.yml"), []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	transcript(t, dir, bin, "step-runner run long.yml --quiet --output-file trace.json")
	transcript(t, dir, bin, "step-runner trace export --format html -o trace.html trace.json")
	page := withScripts(t, filepath.Join(dir, "trace.html"), `addEventListener("load", async () => {
		const search = document.getElementById("search");
		search.value = "399999";
		search.dispatchEvent(new Event("input"));
		await new Promise((done) => setTimeout(done, 500));
		const line = document.querySelector("#details mark.now").closest(".l");
		parent.postMessage(line.querySelector(".t").textContent + ": " + document.getElementById("found").textContent, "*");
	});`)
	want := regexp.MustCompile(`^399999: 1 step, 1 in logs; searched only a part: [\d.]+ MB of the logs are not in this page$`)
	if got := reported(t, browser, framed(t, page, sizes["a desktop"])); !want.MatchString(got) {
		t.Errorf("it says %q", got)
	}
}

// withScripts writes a page with more scripts, without its policy, which allows none but its own.
func withScripts(t *testing.T, page string, scripts ...string) string {
	t.Helper()
	text := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(contents(t, page), "")
	text = strings.TrimSuffix(strings.TrimSpace(text), "</body>\n</html>")
	for _, script := range scripts {
		text += "<script>" + script + "</script>"
	}
	file := strings.TrimSuffix(page, ".html") + "-checked.html"
	if err := os.WriteFile(file, []byte(text+"</body></html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// reported returns what a framed page says of itself.
func reported(t *testing.T, browser, page string, flags ...string) string {
	t.Helper()
	_, found, ok := strings.Cut(opened(t, browser, page, flags...), `<pre id="checked">`)
	found, _, end := strings.Cut(found, "</pre>")
	if !ok || !end {
		t.Fatal("the page reports nothing")
	}
	return html.UnescapeString(found)
}

// chromium returns a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs Chromium")
	return ""
}

// axeCore returns the file of axe-core, which is installed once for each version.
func axeCore(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("needs npm")
	}
	sum := sha256.Sum256([]byte(contents(t, "page/package-lock.json")))
	dir, err := filepath.Abs(filepath.Join(root, "build", "page-"+hex.EncodeToString(sum[:8])))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(contents(t, filepath.Join("page", name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-progress")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs npm and a registry: npm ci: %v\n%s", err, out)
	}
	return file
}

// demoPage makes the page of the demo's trace.
func demoPage(t *testing.T) string {
	t.Helper()
	bin := build(t)
	dir := workTree(t)
	transcript(t, dir, bin, "step-runner run examples/demo/steps.yml --output-file trace.json")
	if out := transcript(t, dir, bin, "step-runner trace export --format html -o trace.html trace.json"); out != "" {
		t.Fatalf("exporting the page: %s", out)
	}
	return filepath.Join(dir, "trace.html")
}

// opened returns what a page is after its scripts, which must not complain, have run.
func opened(t *testing.T, browser, page string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dir := t.TempDir()
	flags = append(flags, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+filepath.Join(dir, "profile"), "--enable-logging=stderr",
		"--window-size=1280,900", "--virtual-time-budget=30000", "--dump-dom", "file://"+page)
	cmd := exec.CommandContext(ctx, browser, flags...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	var dom, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &dom, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("running %s: %v\n%s", browser, err, log.String())
	}
	for _, line := range strings.Split(log.String(), "\n") {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the page complains: %s", line)
		}
	}
	text := dom.String()
	return text[max(0, strings.Index(text, "<body")):]
}

// withoutScripts leaves what a page shows, without the data that it is drawn from.
func withoutScripts(html string) string {
	for {
		start := strings.Index(html, "<script")
		if start < 0 {
			return html
		}
		end := strings.Index(html[start:], "</script>")
		if end < 0 {
			return html[:start]
		}
		html = html[:start] + html[start+end+len("</script>"):]
	}
}

func contents(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
