//go:build unix

package winrm_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a WinRM server, as its documents have it (DSP0226; MS-WSMV 3.1.4.1): shells, in each of which commands run. What the documents do not
// have is refused.
type server struct {
	*httptest.Server
	t     *testing.T
	basic bool
	// patience is how long it waits before it says that there is nothing to say.
	patience time.Duration

	mu     sync.Mutex
	shells map[string]map[string]*running
	lines  []string // all command lines
	clear  []string // what came without a seal, where all must have one
	deaf   bool     // it refuses input
}

const (
	user, password = "Administrator", "correct horse battery staple"
	shellURI       = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell"
	transfer       = "http://schemas.xmlsoap.org/ws/2004/09/transfer/"
	maxStream      = 90_000 // bytes of output in a message
)

type connKey struct{}

func serve(t *testing.T, https, basic bool) *server {
	t.Helper()
	s := &server{t: t, basic: basic, patience: 200 * time.Millisecond, shells: map[string]map[string]*running{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, &ntlm{user: user, password: password})
	}
	if https {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.mu.Lock()
		for _, shell := range s.shells {
			for _, r := range shell {
				r.kill()
			}
		}
		s.mu.Unlock()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeHTTP implements http.Handler: who asks, and whether the message is sealed.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if s.basic {
		if name, secret, is := r.BasicAuth(); !is || name != user || secret != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.answer(w, body, nil)
		return
	}
	known := r.Context().Value(connKey{}).(*ntlm)
	if !known.known {
		if len(body) > 0 && r.TLS == nil {
			s.mu.Lock()
			s.clear = append(s.clear, string(body))
			s.mu.Unlock()
		}
		if !known.authenticate(w, r) {
			return
		}
		if len(body) == 0 {
			w.WriteHeader(http.StatusOK)
			return
		}
	}
	if r.TLS != nil {
		s.answer(w, body, nil)
		return
	}
	message, err := known.open(r.Header.Get("Content-Type"), body)
	if err != nil {
		s.t.Error(err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.answer(w, message, known)
}

// envelope is a request.
type envelope struct {
	Header struct {
		To, Action, MessageID, ResourceURI, OperationTimeout string
		MaxEnvelopeSize                                      int
		Shell                                                string `xml:"SelectorSet>Selector"`
	}
	Body struct {
		Command   string   `xml:"CommandLine>Command"`
		Arguments []string `xml:"CommandLine>Arguments"`
		Stream    []struct {
			Name      string `xml:"Name,attr"`
			CommandID string `xml:"CommandId,attr"`
			End       bool   `xml:"End,attr"`
			Text      string `xml:",chardata"`
		} `xml:"Send>Stream"`
		Receive struct {
			CommandID string `xml:"CommandId,attr"`
			Streams   string `xml:",chardata"`
		} `xml:"Receive>DesiredStream"`
		Signal struct {
			CommandID string `xml:"CommandId,attr"`
			Code      string
		}
	}
}

// fault is what is wrong with a request.
type fault struct{ subcode, code, reason string }

func (f *fault) Error() string { return f.reason }

var timedOut = &fault{"w:TimedOut", "2150858793", "The WS-Management service cannot complete the operation within the time specified in OperationTimeout."}

func invalid(format string, args ...any) *fault {
	return &fault{"wsa:InvalidMessage", "", fmt.Sprintf(format, args...)}
}

// answer answers a message, sealed if that came so.
func (s *server) answer(w http.ResponseWriter, text []byte, known *ntlm) {
	var e envelope
	status := http.StatusOK
	action, body, err := "", "", error(nil)
	if err = xml.Unmarshal(text, &e); err == nil {
		h := &e.Header
		switch {
		case h.MessageID == "" || h.OperationTimeout == "" || !strings.HasSuffix(h.To, "/wsman"):
			err = invalid("a header is missing: %+v", *h)
		case h.MaxEnvelopeSize < len(text):
			err = invalid("the message has %d bytes, and may have %d", len(text), h.MaxEnvelopeSize)
		case h.ResourceURI != shellURI+"/cmd":
			err = invalid("%q is no shell", h.ResourceURI)
		default:
			action, body, err = s.do(&e)
		}
	}
	if err != nil {
		f := invalid("%v", err)
		if !errors.As(err, &f) || f != timedOut {
			s.t.Log("the server refuses:", err)
		}
		status = http.StatusInternalServerError
		action = "http://schemas.dmtf.org/wbem/wsman/1/wsman/fault"
		body = fmt.Sprintf(`<s:Fault><s:Code><s:Value>s:Receiver</s:Value><s:Subcode><s:Value>%s</s:Value></s:Subcode></s:Code><s:Reason><s:Text xml:lang="en-US">%s</s:Text></s:Reason>`+
			`<s:Detail><f:WSManFault xmlns:f="http://schemas.microsoft.com/wbem/wsman/1/wsmanfault" Code="%s"><f:Message>%s</f:Message></f:WSManFault></s:Detail></s:Fault>`,
			f.subcode, f.reason, f.code, f.reason)
	}
	answer := []byte(fmt.Sprintf(`<s:Envelope xml:lang="en-US" xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" `+
		`xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" xmlns:rsp="%s" xmlns:x="http://schemas.xmlsoap.org/ws/2004/09/transfer"><s:Header><a:Action>%s</a:Action>`+
		`<a:MessageID>uuid:%s</a:MessageID><a:RelatesTo>%s</a:RelatesTo></s:Header><s:Body>%s</s:Body></s:Envelope>`, shellURI, action, rand.Text(), e.Header.MessageID, body))
	w.Header().Set("Content-Type", "application/soap+xml;charset=UTF-8")
	if known != nil {
		answer = known.seal(answer)
		w.Header().Set("Content-Type", sealedType)
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// do does what a message asks for, and returns the action and the body of the answer.
func (s *server) do(e *envelope) (action, body string, err error) {
	s.mu.Lock()
	deaf := s.deaf
	shell, known := s.shells[e.Header.Shell]
	s.mu.Unlock()
	if e.Header.Action == transfer+"Create" {
		id := rand.Text()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shells[id] = map[string]*running{}
		return transfer + "CreateResponse", fmt.Sprintf(`<x:ResourceCreated><a:Address>%s</a:Address><a:ReferenceParameters><w:ResourceURI>%s/cmd</w:ResourceURI><w:SelectorSet>`+
			`<w:Selector Name="ShellId">%s</w:Selector></w:SelectorSet></a:ReferenceParameters></x:ResourceCreated>`, e.Header.To, shellURI, id), nil
	}
	if !known {
		return "", "", &fault{"w:InvalidSelectors", "2150858843", "there is no such shell"}
	}
	command := func(id string) (*running, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r := shell[id]; r != nil {
			return r, nil
		}
		return nil, &fault{"w:InvalidParameter", "", "there is no such command"}
	}
	switch e.Header.Action {
	case transfer + "Delete":
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range shell {
			r.kill()
		}
		delete(s.shells, e.Header.Shell)
		return transfer + "DeleteResponse", "", nil
	case shellURI + "/Command":
		id := rand.Text()
		line := strings.Join(append([]string{e.Body.Command}, e.Body.Arguments...), " ")
		r := s.run(line)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, line)
		shell[id] = r
		return shellURI + "/CommandResponse", "<rsp:CommandResponse><rsp:CommandId>" + id + "</rsp:CommandId></rsp:CommandResponse>", nil
	case shellURI + "/Send":
		if deaf {
			return "", "", &fault{"w:QuotaLimit", "", "there is no room for more input"}
		}
		for _, stream := range e.Body.Stream {
			r, err := command(stream.CommandID)
			text, errText := base64.StdEncoding.DecodeString(strings.TrimSpace(stream.Text))
			if err = errors.Join(err, errText); err != nil {
				return "", "", err
			}
			r.send(text, stream.End)
		}
		return shellURI + "/SendResponse", "<rsp:SendResponse/>", nil
	case shellURI + "/Receive":
		r, err := command(e.Body.Receive.CommandID)
		if err != nil {
			return "", "", err
		}
		body, err := s.receive(r, e.Body.Receive.CommandID)
		return shellURI + "/ReceiveResponse", body, err
	case shellURI + "/Signal":
		r, err := command(e.Body.Signal.CommandID)
		if err != nil {
			return "", "", err
		}
		if e.Body.Signal.Code != shellURI+"/signal/terminate" {
			return "", "", invalid("the signal %q", e.Body.Signal.Code)
		}
		r.kill()
		return shellURI + "/SignalResponse", "<rsp:SignalResponse/>", nil
	}
	return "", "", invalid("the action %q", e.Header.Action)
}

// receive is what a command has written since it was asked last.
func (s *server) receive(r *running, id string) (string, error) {
	out, errs, code, over := r.take(s.patience, maxStream)
	if len(out)+len(errs) == 0 && !over {
		return "", timedOut
	}
	var b bytes.Buffer
	b.WriteString("<rsp:ReceiveResponse>")
	for name, text := range map[string][]byte{"stdout": out, "stderr": errs} {
		if len(text) > 0 {
			fmt.Fprintf(&b, `<rsp:Stream Name="%s" CommandId="%s">%s</rsp:Stream>`, name, id, base64.StdEncoding.EncodeToString(text))
		}
	}
	if over {
		fmt.Fprintf(&b, `<rsp:CommandState CommandId="%s" State="%s/CommandState/Done"><rsp:ExitCode>%d</rsp:ExitCode></rsp:CommandState>`, id, shellURI, code)
	} else {
		fmt.Fprintf(&b, `<rsp:CommandState CommandId="%s" State="%s/CommandState/Running"/>`, id, shellURI)
	}
	b.WriteString("</rsp:ReceiveResponse>")
	return b.String(), nil
}
