package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// port finds a free port, which is in $NAME: port NAME.
func port(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: port NAME")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, number, err := net.SplitHostPort(listener.Addr().String())
	ts.Check(err)
	ts.Check(listener.Close())
	ts.Setenv(args[0], number)
}

// again tries something until it comes out well, or a job would have ended.
func again(ts *testscript.TestScript, try func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), jobTime)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("%v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// terminal opens the terminal of a job of `gitlab`, types a line, and waits for what that shows.
func (g *gitlab) terminal(ts *testscript.TestScript, name, line, want string) {
	again(ts, func(ctx context.Context) error {
		c, err := g.jobs[name].Terminal(ctx, gitlabtest.TerminalProtocol)
		if err != nil {
			return err
		}
		defer c.Close()
		ts.Check(c.Type(ctx, line+"\n"))
		shown, err := c.Until(ctx, want)
		ts.Logf("the terminal shows %q", shown)
		return err
	})
}

// page starts a pipeline on the page of a `rung dev gitlab` whose output is in a file, opens the terminal of a job there when its log has a text, types lines,
// and waits for the job's state: page FILE JOB TEXT STATE LINE WANT [LINE WANT ...].
func page(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 6 || len(args)%2 != 0 {
		ts.Fatalf("usage: page FILE JOB TEXT STATE LINE WANT [LINE WANT ...]")
	}
	jar, _ := cookiejar.New(nil)
	b := &browser{client: &http.Client{Jar: jar}}
	again(ts, func(ctx context.Context) error {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil {
			return err
		}
		address := regexp.MustCompile(`(?m)^Page: +(\S+)$`).FindStringSubmatch(string(text))
		if address == nil {
			return fmt.Errorf("there is no address of the page in %q", text)
		}
		at, err := url.Parse(address[1])
		ts.Check(err)
		b.origin = at.Scheme + "://" + at.Host
		_, err = b.asks(ctx, http.MethodGet, at.RequestURI())
		return err
	})
	_, err := b.asks(context.Background(), http.MethodPost, "/-/pipelines")
	ts.Check(err)
	job := ""
	again(ts, func(ctx context.Context) error {
		text, err := b.asks(ctx, http.MethodGet, "/-/pipelines/1")
		ts.Check(err)
		if link := regexp.MustCompile(`href="(/-/jobs/\d+)">` + args[1] + `<`).FindStringSubmatch(text); link != nil {
			job = link[1]
		}
		return b.shows(ctx, job, args[2], `href="`+job+`/terminal"`)
	})
	b.terminal(ts, job, args[4:])
	again(ts, func(ctx context.Context) error { return b.shows(ctx, job, `class="state `+args[3]+`"`) })
}

// browser is somebody at the page of a `rung dev gitlab`.
type browser struct {
	client *http.Client
	origin string
}

// asks asks for a page.
func (b *browser) asks(ctx context.Context, method, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.origin+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Origin", b.origin)
	answer, err := b.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return string(text), err
}

// shows is an error if a page has not all texts.
func (b *browser) shows(ctx context.Context, path string, texts ...string) error {
	shown, err := b.asks(ctx, http.MethodGet, path)
	for _, want := range texts {
		if err == nil && !strings.Contains(shown, want) {
			err = fmt.Errorf("%s has no %s: %s", path, want, shown)
		}
	}
	return err
}

// terminal types lines into the terminal of a job, and waits for what each shows.
func (b *browser) terminal(ts *testscript.TestScript, job string, lines []string) {
	ctx, cancel := context.WithTimeout(context.Background(), jobTime)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, b.origin+job+"/terminal.ws", &websocket.DialOptions{HTTPClient: b.client, HTTPHeader: http.Header{"Origin": {b.origin}}})
	ts.Check(err)
	defer conn.CloseNow()
	all := ""
	for len(lines) > 0 {
		ts.Check(conn.Write(ctx, websocket.MessageText, []byte(lines[0]+"\n")))
		for shown := all; !strings.Contains(shown, lines[1]); {
			_, data, err := conn.Read(ctx)
			if err != nil {
				ts.Fatalf("%v after %q", err, shown)
			}
			var now struct{ Lines, Last string }
			ts.Check(json.Unmarshal(data, &now))
			all += now.Lines
			shown = all + now.Last
		}
		lines = lines[2:]
	}
}
