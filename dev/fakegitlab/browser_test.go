package fakegitlab_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// tab is a page in Chromium, which is spoken to by its DevTools protocol.
type tab struct {
	t    *testing.T
	conn *websocket.Conn
	last int
}

// answer is a message of Chromium.
type answer struct {
	ID     int
	Method string
	Params struct {
		Entry struct{ Level, Text, URL string }
	}
	Result struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	Error any
}

// browses opens an address in Chromium.
func browses(t *testing.T, address string) *tab {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("needs Chromium")
	}
	dir := t.TempDir()
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+filepath.Join(dir, "profile"), "--remote-debugging-port=0", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	says, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_, _ = io.Copy(io.Discard, says) // its other processes write into its folder until they have ended, too
		_ = cmd.Wait()
	})
	at := ""
	for lines := bufio.NewScanner(says); at == "" && lines.Scan(); {
		at = strings.TrimPrefix(lines.Text(), "DevTools listening on ws://")
		if at == lines.Text() {
			at = ""
		}
	}
	host, _, _ := strings.Cut(at, "/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/json/new?"+url.QueryEscape(address), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var page struct{ WebSocketDebuggerURL string }
	if err := json.NewDecoder(got.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	conn, _, err := websocket.Dial(t.Context(), page.WebSocketDebuggerURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	b := &tab{t: t, conn: conn}
	if _, err := b.call(t.Context(), "Log.enable", nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// call calls a method. What Chromium complains of meanwhile fails the test.
func (b *tab) call(ctx context.Context, method string, params map[string]any) (answer, error) {
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	if err != nil {
		return answer{}, err
	}
	if err := b.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return answer{}, err
	}
	for {
		_, text, err := b.conn.Read(ctx)
		if err != nil {
			return answer{}, err
		}
		var a answer
		if err := json.Unmarshal(text, &a); err != nil {
			return a, err
		}
		if entry := a.Params.Entry; entry.Level == "error" && !strings.HasSuffix(entry.URL, "/favicon.ico") {
			b.t.Errorf("the page complains: %s %s", entry.Text, entry.URL)
		}
		if a.ID == b.last {
			if a.Error != nil || a.Result.ExceptionDetails != nil {
				err = fmt.Errorf("%s %v: %v %v", method, params, a.Error, a.Result.ExceptionDetails)
			}
			return a, err
		}
	}
}

// does runs JavaScript in the page and returns what that comes to.
func (b *tab) does(ctx context.Context, script string) (any, error) {
	a, err := b.call(ctx, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true})
	return a.Result.Result.Value, err
}

// until runs JavaScript until it comes to a value. Between two pages it may fail.
func (b *tab) until(script string, want any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := b.does(ctx, script)
		if err == nil && got == want {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatal(errors.Join(fmt.Errorf("%s is %q, want %q", script, got, want), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// once runs JavaScript that must not fail.
func (b *tab) once(script string) {
	b.t.Helper()
	if _, err := b.does(b.t.Context(), script); err != nil {
		b.t.Fatal(err)
	}
}

func TestATerminalWorksInABrowser(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": oneJob})
	job, _ := f.runs(sessionServer(t))
	b := browses(t, f.PageURL())
	b.until(`document.title.startsWith("Pipelines")`, true)
	b.once(`location.href = "/-/jobs/` + number(job.ID) + `"`)
	b.until(`!!document.getElementById("terminal")`, true)
	b.once(`document.getElementById("terminal").click()`)

	const shown = `document.getElementById("out")?.textContent`
	enter := func(line string) { b.once(fmt.Sprintf(`typed.value = %q; form.requestSubmit()`, line)) }
	b.until(shown, "$ ")
	b.until(`document.getElementById("state").textContent`, "The terminal is open.")
	b.until(`document.activeElement === typed`, true)
	enter("something")
	b.until(shown, "$ did something\n$ ")
	b.until(`typed.value`, "")
	enter("hostile")
	all := "$ did something\n$ " + hostile + "\n$ "
	b.until(shown, all)
	b.until(`out.childElementCount + document.title.split(" · ")[0]`, "0Terminal of job")
	b.once(`typed.dispatchEvent(new KeyboardEvent("keydown", { key: "c", ctrlKey: true, cancelable: true }))`)
	all += "^C\n$ "
	b.until(shown, all)
	b.once(`document.querySelector("[data-key=c]").click()`)
	b.until(shown, all+"^C\n$ ")

	enter("exit")
	b.until(`document.getElementById("state").textContent`, "The terminal is closed: the shell has ended.")
	b.until(`typed.disabled && !document.getElementById("again").hidden`, true)
	b.once(`document.getElementById("again").click()`)
	b.until(shown, "$ ")
}
