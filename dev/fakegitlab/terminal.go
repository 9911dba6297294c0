package fakegitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// The terminal of a job is opened on the page, as in GitLab:
//
//	browser ──websocket──> connect ──websocket, over TLS──> the session server of the job's runner
//
// What a program writes for a terminal becomes plain lines here (paper), and the browser shows text.

const (
	// openTimeout is how long it may take to open a terminal. A runner waits a minute for the job's environment.
	openTimeout = 90 * time.Second
	// maxTyped is the most that is typed at once, as of a session server, in bytes.
	maxTyped = 1 << 20
	// maxReason is how long the reason may be why a websocket is closed, in bytes.
	maxReason = 123
)

// terminal is the page with a job's terminal.
func (p *page) terminal(w http.ResponseWriter, r *http.Request) {
	id, ok := number(w, r)
	if !ok {
		return
	}
	v, ok := p.Job(int64(id))
	if !ok {
		http.NotFound(w, r)
		return
	}
	p.show(w, r, screen{Title: "Terminal of " + v.Name, Terminal: &v})
}

// connect connects a browser with the terminal of a job. Whatever ends that, the browser is told why.
func (p *page) connect(w http.ResponseWriter, r *http.Request) {
	id, ok := number(w, r)
	if !ok {
		return
	}
	p.mu.Lock()
	_, t := p.board.job(int64(id))
	p.mu.Unlock()
	if t == nil || t.api == nil {
		http.NotFound(w, r)
		return
	}
	browser, err := websocket.Accept(w, r, nil) // it refuses the pages of others
	if err != nil {
		return // which Accept has answered
	}
	defer browser.CloseNow()
	browser.SetReadLimit(maxTyped)
	reason := "the job has no terminal: its runner has no session server"
	if t.api.Session() != nil {
		reason = relay(r.Context(), browser, t.api)
	}
	_ = browser.Close(websocket.StatusNormalClosure, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
}

// relay passes on what is typed and shown until the browser or the runner ends that, and returns why. The connection to the browser stays open.
func relay(ctx context.Context, browser *websocket.Conn, job *gitlabtest.Job) (reason string) {
	opening, opened := context.WithTimeout(ctx, openTimeout)
	terminal, err := job.Terminal(opening, gitlabtest.TerminalProtocol)
	opened()
	if err != nil {
		return refusal(err)
	}
	defer terminal.Close()
	left, leave := context.WithCancel(ctx)
	go func() {
		defer leave()
		for {
			_, typed, err := browser.Read(ctx)
			if err != nil {
				return
			}
			_ = terminal.Type(ctx, string(typed)) // Receive says what is wrong
		}
	}()
	var sheet paper
	for {
		data, err := terminal.Receive(left)
		if err != nil {
			reason, _ := gitlabtest.EndOf(err)
			return cmp.Or(reason, "the connection to the runner has ended")
		}
		message, err := json.Marshal(sheet.write(data))
		if err == nil {
			err = browser.Write(ctx, websocket.MessageText, message)
		}
		if err != nil {
			return err.Error()
		}
	}
}

// refusal says why a terminal was not opened.
func refusal(err error) string {
	var refused *gitlabtest.StatusError
	if !errors.As(err, &refused) {
		return "the runner's session server cannot be reached: " + err.Error()
	}
	switch refused.Status {
	case http.StatusLocked:
		return "somebody else has the terminal of this job"
	case http.StatusNotFound:
		return "the runner does not have this job any more"
	case http.StatusServiceUnavailable:
		return "the job has no environment yet, or none any more"
	}
	return refused.Error()
}
