package gitlabtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"github.com/rungci/rung/manager/gitlab"
)

// The subprotocols of terminals.
const (
	TerminalProtocol       = "terminal.gitlab.com"
	Base64TerminalProtocol = "base64.terminal.gitlab.com"
)

// Terminal is the terminal of a job, as GitLab opens it.
//
// Source: workhorse/internal/channel and app/models/ci/build_runner_session.rb in GitLab.
type Terminal struct {
	conn *websocket.Conn
	seen []byte
}

// StatusError is a runner's refusal of a terminal.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the runner refuses the terminal: %d %s", e.Status, http.StatusText(e.Status))
}

// Session is where the runner of the job said that its terminal is; nil if it did not.
func (j *Job) Session() *gitlab.Session {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	return j.session
}

// Terminal opens the job's terminal. The error is a *StatusError if the runner refuses it.
func (j *Job) Terminal(ctx context.Context, protocol string) (*Terminal, error) {
	session := j.Session()
	if session == nil {
		return nil, errors.New("the runner of the job offers no terminal")
	}
	return OpenTerminal(ctx, session, protocol)
}

// OpenTerminal opens the terminal of a session.
func OpenTerminal(ctx context.Context, session *gitlab.Session, protocol string) (*Terminal, error) {
	if wrong := checkSession(session); wrong != "" {
		return nil, errors.New(wrong)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(session.Certificate)) // and no other
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	conn, answer, err := websocket.Dial(ctx, strings.Replace(session.URL, "https://", "wss://", 1)+"/exec", &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Authorization": {session.Authorization}}, Subprotocols: []string{protocol},
	})
	if err != nil {
		if answer != nil && answer.StatusCode != http.StatusSwitchingProtocols {
			return nil, &StatusError{answer.StatusCode}
		}
		return nil, err
	}
	if conn.Subprotocol() != protocol {
		_ = conn.CloseNow()
		return nil, fmt.Errorf("the runner chose the subprotocol %q, not %q", conn.Subprotocol(), protocol)
	}
	conn.SetReadLimit(1 << 20)
	return &Terminal{conn: conn}, nil
}

// checkSession says what GitLab would not take of a session; empty is nothing.
func checkSession(s *gitlab.Session) string {
	address, err := url.Parse(s.URL)
	switch {
	case err != nil || address.Scheme != "https" || address.Host == "" || !strings.HasPrefix(address.Path, "/session/"):
		return fmt.Sprintf("the session's url is %q, and should be https://HOST:PORT/session/ID", s.URL)
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(s.Certificate)):
		return "the session's certificate is not PEM"
	case len(s.Authorization) < 16:
		return "the session's authorization can be guessed"
	}
	return ""
}

// Type sends what a person types.
func (t *Terminal) Type(ctx context.Context, text string) error {
	if t.conn.Subprotocol() == Base64TerminalProtocol {
		return t.conn.Write(ctx, websocket.MessageText, []byte(base64.StdEncoding.EncodeToString([]byte(text))))
	}
	return t.conn.Write(ctx, websocket.MessageBinary, []byte(text))
}

// Until reads until the terminal has shown text, and returns all that it has shown.
func (t *Terminal) Until(ctx context.Context, text string) (string, error) {
	for !bytes.Contains(t.seen, []byte(text)) {
		if err := t.read(ctx); err != nil {
			return string(t.seen), err
		}
	}
	return string(t.seen), nil
}

// read reads a message into what was seen.
func (t *Terminal) read(ctx context.Context) error {
	data, err := t.Receive(ctx)
	t.seen = append(t.seen, data...)
	return err
}

// Receive returns what the terminal shows next. It is not among what Until and Ended return.
func (t *Terminal) Receive(ctx context.Context) ([]byte, error) {
	kind, data, err := t.conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	coded := t.conn.Subprotocol() == Base64TerminalProtocol
	if coded != (kind == websocket.MessageText) {
		return nil, fmt.Errorf("a message of type %v, which %s has not", kind, t.conn.Subprotocol())
	}
	if coded {
		return base64.StdEncoding.DecodeString(string(data))
	}
	return data, nil
}

// Ended reads until the runner closes the terminal, and returns all that it has shown, and the runner's reason.
func (t *Terminal) Ended(ctx context.Context) (shown, reason string, err error) {
	for err == nil {
		err = t.read(ctx)
	}
	if reason, ok := EndOf(err); ok {
		return string(t.seen), reason, nil
	}
	return string(t.seen), "", err
}

// EndOf is the runner's reason for the end of a terminal; false if err is not that of a terminal that the runner has closed.
func EndOf(err error) (reason string, ok bool) {
	var closed websocket.CloseError
	ok = errors.As(err, &closed) && closed.Code == websocket.StatusNormalClosure
	return closed.Reason, ok
}

// Close leaves the terminal.
func (t *Terminal) Close() { _ = t.conn.Close(websocket.StatusNormalClosure, "") }
