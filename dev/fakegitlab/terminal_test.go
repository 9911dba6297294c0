package fakegitlab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rungci/rung/dev/fakegitlab"
	"github.com/rungci/rung/executor"
	api "github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/terminal"
)

// hostile is what a program may write to do harm on a page, on a line that has room for it.
const hostile = "<b>bold</b><img src=x onerror=\"document.title='harmed'\">"

// shell is a shell whose commands are "exit", "hostile", "waits" and "interrupted".
func shell(ctx context.Context, s *executor.Shell) (int, error) {
	prompt := "\x1b[?2004h\x1b]0;window\x07\x1b[32m$\x1b[0m "
	_, err := io.WriteString(s.Stdout, prompt)
	buffer := make([]byte, 1<<10)
	for err == nil {
		n := 0
		if n, err = s.Stdin.Read(buffer); ctx.Err() != nil || err != nil {
			break
		}
		line := string(buffer[:n])
		said := map[string]string{"hostile\n": hostile + "\r\n", "\x03": "^C\r\n"}[line]
		switch {
		case line == "exit\n":
			return 0, nil
		case said == "":
			said = "did " + strings.TrimSpace(line) + "\r\n"
		}
		_, err = io.WriteString(s.Stdout, said+prompt)
	}
	return -1, context.Cause(ctx)
}

// sessionServer is that of a runner.
func sessionServer(t *testing.T) *terminal.Server {
	t.Helper()
	s, err := terminal.Listen(terminal.Options{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// runs starts a pipeline of one job, whose runner has a session server; nil is none.
func (f *fixture) runs(at *terminal.Server) (*api.Job, *terminal.Session) {
	f.t.Helper()
	session := at.Begin(time.Minute)
	session.Open(1, shell)
	id := f.pipeline(fakegitlab.Selection{})
	got, err := f.client.RequestJob(f.t.Context(), api.Ask{Runner: api.Runner{Token: f.RunnerToken(), SystemID: runnerID}, Session: session.Info()})
	if err != nil || got.Job == nil {
		f.t.Fatalf("there is no job: %v", err)
	}
	f.update(got.Job, api.Update{State: api.Running})
	f.until(id, got.Job.Info.Name+" running")
	return got.Job, session
}

// view is a terminal in a browser.
type view struct {
	t    *testing.T
	conn *websocket.Conn
	all  string // lines that are complete
	last string
}

// opens opens the terminal of a job in a browser, from a page at origin.
func (b *browser) opens(job *api.Job, origin string) (*view, *http.Response, error) {
	header := http.Header{}
	if origin != "" {
		header.Set("Origin", origin)
	}
	conn, answer, err := websocket.Dial(b.f.t.Context(), b.f.url+"/-/jobs/"+number(job.ID)+"/terminal.ws", &websocket.DialOptions{HTTPClient: b.Client, HTTPHeader: header})
	return &view{t: b.f.t, conn: conn}, answer, err
}

func (b *browser) terminal(job *api.Job) *view {
	b.f.t.Helper()
	v, _, err := b.opens(job, b.f.url)
	if err != nil {
		b.f.t.Fatal(err)
	}
	return v
}

func (v *view) receive() error {
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	_, data, err := v.conn.Read(ctx)
	if err != nil {
		return err
	}
	var now struct{ Lines, Last string }
	if err := json.Unmarshal(data, &now); err != nil {
		return err
	}
	v.all, v.last = v.all+now.Lines, now.Last
	return nil
}

// until waits for all that is to be seen.
func (v *view) until(want string) {
	v.t.Helper()
	for v.all+v.last != want {
		if err := v.receive(); err != nil {
			v.t.Fatalf("%v after %q", err, v.all+v.last)
		}
	}
}

func (v *view) types(text string) {
	v.t.Helper()
	if err := v.conn.Write(v.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		v.t.Fatal(err)
	}
}

// ended is why the terminal was closed.
func (v *view) ended() string {
	v.t.Helper()
	for {
		var closed websocket.CloseError
		if err := v.receive(); errors.As(err, &closed) {
			return closed.Reason
		} else if err != nil {
			v.t.Fatal(err)
		}
	}
}

const oneJob = "job: {script: x}"

func TestThePageOpensATerminalOfAJobThatRuns(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": oneJob})
	b := f.browser()
	b.get(f.PageURL())
	job, session := f.runs(sessionServer(t))
	page, _ := b.get(f.url + "/-/jobs/" + number(job.ID))
	link := `href="/-/jobs/` + number(job.ID) + `/terminal"`
	f.wants(page, link)
	page, _ = b.get(f.url + "/-/jobs/" + number(job.ID) + "/terminal")
	f.wants(page, "<h1>Terminal of job</h1>", `src="/-/terminal.js"`)
	if strings.Contains(page, session.Info().Authorization) {
		t.Error("the browser learns the secret that opens the terminal")
	}

	v := b.terminal(job)
	v.until("$ ")
	v.types("something\n")
	v.until("$ did something\n$ ")
	if reason := b.terminal(job).ended(); reason != "somebody else has the terminal of this job" {
		t.Errorf("a second person: %q", reason)
	}
	v.types("exit\n")
	if reason := v.ended(); reason != "the shell has ended" {
		t.Errorf("%q", reason)
	}
	v = b.terminal(job)
	v.until("$ ")
	waited := make(chan struct{})
	go func() { session.Wait(t.Context()); close(waited) }()
	v.until("$\nThe job has ended. It waits until this terminal is closed, for 1m0s at most.\n")
	_ = v.conn.CloseNow() // as when the page is left
	<-waited
	session.Close()
	if reason := b.terminal(job).ended(); reason != "the runner does not have this job any more" {
		t.Errorf("after its end: %q", reason)
	}
	f.update(job, success)
	f.until(1, "job success")
	if page, _ = b.get(f.url + "/-/jobs/" + number(job.ID)); strings.Contains(page, link) {
		t.Error("a job that has ended offers a terminal")
	}
}

func TestATerminalIsForThePageAlone(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": oneJob})
	job, _ := f.runs(sessionServer(t))
	if _, answer, err := f.browser().opens(job, f.url); err == nil || answer == nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("without the token: %v", err)
	}
	b := f.browser()
	b.get(f.PageURL())
	for _, origin := range []string{"http://evil.example", "http://127.0.0.1:1", "null"} {
		if _, answer, err := b.opens(job, origin); err == nil || answer == nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("from %q: %v", origin, err)
		}
	}
}

func TestATerminalThatCannotBeOpenedSaysWhy(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": oneJob})
	b := f.browser()
	b.get(f.PageURL())
	without, _ := f.runs(nil)
	if page, _ := b.get(f.url + "/-/jobs/" + number(without.ID)); strings.Contains(page, "terminal") {
		t.Error("the page of a job without a terminal offers one")
	}
	if reason := b.terminal(without).ended(); !strings.Contains(reason, "its runner has no session server") {
		t.Errorf("%q", reason)
	}
	f.update(without, success)
	server := sessionServer(t)
	away, _ := f.runs(server)
	server.Close()
	if reason := b.terminal(away).ended(); !strings.Contains(reason, "the runner's session server cannot be reached: ") {
		t.Errorf("%q", reason)
	}
	if _, status := b.get(fmt.Sprintf("%s/-/jobs/%d/terminal", f.url, away.ID+100)); status != http.StatusNotFound {
		t.Errorf("a job that there is not: %d", status)
	}
}
