package terminal

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/rungci/rung/executor"
)

const (
	// subprotocol passes bytes in binary messages, and encoded in text messages in base64.
	subprotocol = "terminal.gitlab.com"
	encoded     = "base64.terminal.gitlab.com"
	// MaxMessage is the most that a message from a client may have, in bytes.
	MaxMessage = 1 << 20
	// readyTimeout is how long a client waits for the job's environment.
	readyTimeout = time.Minute
	// pingEvery is how often it is asked whether the client is there, which has as long to answer.
	pingEvery = 30 * time.Second
	// writeTimeout is how long a client may take to read what it is sent.
	writeTimeout = time.Minute
)

// size is that of a terminal, in characters: the protocol does not say it.
var size = executor.Size{Columns: 80, Rows: 24}

// Shell opens a shell in the environment of a job, as executor.Environment.Shell does.
type Shell func(ctx context.Context, shell *executor.Shell) (exitCode int, err error)

// Session is the terminal of one job, which one person at a time has. Its methods are safe for concurrent use, and those of nil do nothing.
type Session struct {
	server            *Server
	id, authorization string
	limit             time.Duration
	log               *slog.Logger

	ready chan struct{} // closed: shell can be opened
	ended chan struct{} // closed: nobody gets in any more, and who is in is sent away

	mu     sync.Mutex
	shell  Shell
	taken  bool    // somebody has the terminal, or is about to
	person *person // who has it
	over   bool
}

// person is who has the terminal.
type person struct {
	conn   *websocket.Conn
	base64 bool
	left   chan struct{} // closed: they are gone
}

// Open lets people in. job names the job in the log.
func (s *Session) Open(job int64, shell Shell) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shell == nil && !s.over {
		s.shell, s.log = shell, s.log.With("job", job)
		close(s.ready)
	}
}

// Wait waits until nobody has the terminal, for the session's limit at most, or until ctx ends. The job has ended.
func (s *Session) Wait(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	p := s.person
	s.mu.Unlock()
	if p == nil {
		return
	}
	s.log.Info("the job has ended, and waits for its terminal to be closed", "at_most", s.limit)
	_, _ = p.Write(fmt.Appendf(nil, "\r\nThe job has ended. It waits until this terminal is closed, for %s at most.\r\n", s.limit))
	timer := time.NewTimer(s.limit)
	defer timer.Stop()
	select {
	case <-p.left:
	case <-ctx.Done():
	case <-timer.C:
		_, _ = p.Write([]byte("\r\nThe time of this terminal is over.\r\n"))
	}
}

// Close ends the session, with who is in.
func (s *Session) Close() {
	if s == nil {
		return
	}
	s.server.mu.Lock()
	delete(s.server.sessions, s.id)
	s.server.mu.Unlock()
	s.end()
}

func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over = true
		close(s.ended)
	}
}

// serve gives the terminal to a client, if nobody has it.
func (s *Session) serve(w http.ResponseWriter, r *http.Request) {
	timer := time.NewTimer(readyTimeout)
	defer timer.Stop()
	select {
	case <-s.ready:
	case <-r.Context().Done():
		return
	case <-s.ended:
		http.Error(w, "the job has ended", http.StatusServiceUnavailable)
		return
	case <-timer.C:
		http.Error(w, "the job has no environment yet", http.StatusServiceUnavailable)
		return
	}
	if !s.take() {
		http.Error(w, "somebody else has the terminal", http.StatusLocked)
		return
	}
	p := &person{left: make(chan struct{})}
	defer s.leave(p)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol, encoded},
		InsecureSkipVerify: true, // of the origin: no page of a browser can send the authorization
	})
	if err != nil {
		return // which Accept has answered
	}
	conn.SetReadLimit(MaxMessage)
	p.conn, p.base64 = conn, conn.Subprotocol() == encoded
	s.mu.Lock()
	s.person = p
	s.mu.Unlock()
	s.log.Info("a terminal is opened", "from", r.RemoteAddr)
	code, err := s.run(p)
	s.log.Info("a terminal is closed", "from", r.RemoteAddr, "exit_code", code, "error", err)
}

// take takes the terminal, unless somebody has it.
func (s *Session) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return false
	}
	s.taken = true
	return true
}

func (s *Session) leave(p *person) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.person = false, nil
	close(p.left)
}

// run connects a person with a shell, until one of them ends it.
func (s *Session) run(p *person) (code int, err error) {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	typed, typing := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = typing.Close() })()
	go func() {
		err := p.read(typing)
		end(fmt.Errorf("the terminal was left: %w", err))
	}()
	go p.stay(ctx, end)
	go func() {
		select {
		case <-s.ended:
			end(errors.New("the job has ended"))
		case <-ctx.Done():
		}
	}()
	sizes := make(chan executor.Size, 1)
	sizes <- size
	code, err = s.shell(ctx, &executor.Shell{Stdin: typed, Stdout: p, Stderr: p, Terminal: true, Resize: sizes})
	_ = typed.Close() // what was typed and not read holds up nobody
	reason := "the shell has ended"
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		_, _ = p.Write([]byte("The isolation level of this job has no terminals.\r\n"))
		reason = "this job has no terminal"
	case ctx.Err() != nil:
		reason, err = context.Cause(ctx).Error(), context.Cause(ctx)
	case err != nil:
		_, _ = p.Write(fmt.Appendf(nil, "The shell cannot be opened: %v\r\n", err))
		reason = "the shell cannot be opened"
	}
	_ = p.conn.Close(websocket.StatusNormalClosure, strings.ToValidUTF8(reason[:min(len(reason), 120)], "")) // a reason has 123 bytes at most
	return code, err
}

// read passes on what a person types, until the connection ends.
func (p *person) read(to io.Writer) error {
	for {
		_, data, err := p.conn.Read(context.Background())
		if err != nil {
			return err
		}
		if p.base64 {
			if data, err = base64.StdEncoding.DecodeString(string(data)); err != nil {
				return fmt.Errorf("a message is not base64: %w", err)
			}
		}
		if _, err := to.Write(data); err != nil {
			return err
		}
	}
}

// Write shows something to the person.
func (p *person) Write(data []byte) (int, error) {
	ctx, end := context.WithTimeout(context.Background(), writeTimeout)
	defer end()
	kind, message := websocket.MessageBinary, data
	if p.base64 {
		kind, message = websocket.MessageText, []byte(base64.StdEncoding.EncodeToString(data))
	}
	if err := p.conn.Write(ctx, kind, message); err != nil {
		return 0, err
	}
	return len(data), nil
}

// stay asks whether the person is still there.
func (p *person) stay(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, enough := context.WithTimeout(ctx, pingEvery)
		if err := p.conn.Ping(asking); err != nil {
			end(fmt.Errorf("the terminal does not answer: %w", err))
		}
		enough()
	}
}
