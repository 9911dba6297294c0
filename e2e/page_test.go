package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheTracePageWorksInABrowser opens the page of the demo's trace in Chromium, where its scripts must draw the tree and
// complain of nothing.
func TestTheTracePageWorksInABrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("needs Chromium")
	}
	bin := build(t)
	dir := workTree(t)
	transcript(t, dir, bin, "step-runner run examples/demo/steps.yml --output-file trace.json")
	if out := transcript(t, dir, bin, "step-runner trace export --format html -o trace.html trace.json"); out != "" {
		t.Fatalf("exporting the page: %s", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--user-data-dir="+filepath.Join(dir, "profile"), "--enable-logging=stderr",
		"--virtual-time-budget=2000", "--dump-dom", "file://"+filepath.Join(dir, "trace.html"))
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
	page := dom.String()
	body := page[strings.Index(page, "<body"):]
	for _, want := range []string{"announce", "an earlier step failed", "exit 3", "1 test failed: TestDemo wants to show you a failure"} {
		if !strings.Contains(withoutScripts(body), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
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
