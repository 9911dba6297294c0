package winrm

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bodgit/ntlmssp"
	"github.com/masterzen/winrm"
	"github.com/masterzen/winrm/soap"

	"github.com/rungci/rung/executor/host"
)

const (
	// operationTime is how long a server may wait before it says that there is nothing to say.
	operationTime = 20 * time.Second
	// answerTime is how long it may take to answer beyond that.
	answerTime = 10 * time.Second
	// connectTime bounds connecting, and agreeing on keys.
	connectTime = 20 * time.Second
	// idleTime is how long a connection is used again after its last answer. Servers close theirs after a minute or more.
	idleTime = 20 * time.Second
	// maxAnswer bounds an answer, in bytes: what we ask for is less.
	maxAnswer = 4 << 20

	contentType = "application/soap+xml;charset=UTF-8"
)

// Fault is what a server says that is wrong with a request (SOAP 1.2, 5.4).
type Fault struct {
	// Status is HTTP's.
	Status int
	// Code is that of WS-Management or Windows: "w:TimedOut", "2150858793"; empty: the server gave none.
	Code   string
	Reason string
}

func (f *Fault) Error() string {
	if f.timedOut() { // by this word the library knows that it is to ask again
		return "OperationTimeout: " + f.Reason
	}
	return strings.TrimSpace(fmt.Sprintf("the WinRM server answers with status %d %s %s", f.Status, f.Code, f.Reason))
}

// timedOut says that there is nothing to say yet (DSP0226, 14.6; ERROR_WSMAN_OPERATION_TIMEDOUT).
func (f *Fault) timedOut() bool {
	const timedOut = "2150858793"
	return f.Code == timedOut || strings.HasSuffix(f.Code, ":TimedOut")
}

// transport carries messages over connections that are authenticated, one message at a time on each.
type transport struct {
	options *Options
	life    context.Context

	mu   sync.Mutex
	idle []*session
}

var _ winrm.Transporter = (*transport)(nil)

// session is one connection, on which the server knows us.
type session struct {
	net.Conn
	answers *bufio.Reader
	seal    *ntlmssp.SecuritySession // nil: messages are as they are
	until   time.Time
	// last is that the server closes the connection after its answer.
	last bool
}

// broken is an error of a connection. It is none of those below it: the library takes the end of a connection for that of an output.
type broken struct{ err error }

func (e *broken) Error() string { return "asking the WinRM server: " + e.err.Error() }

// Transport implements winrm.Transporter.
func (*transport) Transport(*winrm.Endpoint) error { return nil }

// Post implements winrm.Transporter.
func (t *transport) Post(_ *winrm.Client, message *soap.SoapMessage) (string, error) {
	s, err := t.take()
	if err != nil {
		return "", err
	}
	text, err := t.send(s, message.String())
	var fault *Fault
	if s.last || err != nil && !errors.As(err, &fault) {
		_ = s.Close()
		return text, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.until = time.Now().Add(idleTime)
	t.idle = append(t.idle, s)
	return text, err
}

// take is a connection that nobody uses.
func (t *transport) take() (*session, error) {
	t.mu.Lock()
	for len(t.idle) > 0 {
		s := t.idle[len(t.idle)-1]
		t.idle = t.idle[:len(t.idle)-1]
		if time.Now().Before(s.until) {
			t.mu.Unlock()
			return s, nil
		}
		_ = s.Close()
	}
	t.mu.Unlock()
	return t.open()
}

// secure begins TLS on a connection to a server of a name.
func (t *transport) secure(ctx context.Context, conn net.Conn, name string) (net.Conn, error) {
	config := t.tls()
	if config.ServerName == "" {
		config.ServerName = name
	}
	over := tls.Client(conn, config)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return over, nil
}

// open makes a connection. What we send is not sent before the server knows us, and has shown that it knows our password or has a certificate.
// The connection is ours and not that of an http.Client: the server knows us on this one alone, and a client may take another.
func (t *transport) open() (*session, error) {
	ctx, cancel := context.WithTimeout(t.life, connectTime)
	defer cancel()
	at, err := url.Parse(t.options.url())
	if err != nil {
		return nil, err
	}
	conn, err := t.options.dial(ctx, "tcp", at.Host)
	if err == nil && t.options.HTTPS {
		conn, err = t.secure(ctx, conn, at.Hostname())
	}
	if err != nil {
		return nil, &broken{err}
	}
	s := &session{Conn: conn, answers: bufio.NewReader(conn)}
	if t.options.Basic {
		return s, nil
	}
	if err := t.introduce(s); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// introduce tells the server who we are, with messages that are empty (MS-NLMP 1.3.1.1).
func (t *transport) introduce(s *session) error {
	domain, user := "", t.options.User
	if before, after, found := strings.Cut(user, `\`); found {
		domain, user = before, after
	}
	who, err := ntlmssp.NewClient(ntlmssp.SetUserInfo(user, t.options.Password), ntlmssp.SetDomain(domain), ntlmssp.SetVersion(ntlmssp.DefaultVersion()))
	if err != nil {
		return err
	}
	var challenge []byte
	for range 2 { // our first message, and the one that answers the server's
		var binding *ntlmssp.ChannelBindings
		if secure, is := s.Conn.(*tls.Conn); is {
			binding = bound(secure.ConnectionState().PeerCertificates[0])
		}
		message, err := who.Authenticate(challenge, binding)
		if err != nil {
			return fmt.Errorf("logging in to the WinRM server: %w", err)
		}
		answer, err := t.post(s, nil, contentType, "Negotiate "+base64.StdEncoding.EncodeToString(message))
		switch {
		case err != nil:
			return err
		case answer.status == http.StatusOK && who.Complete():
			if !t.options.HTTPS {
				s.seal = who.SecuritySession()
			}
			return nil
		case answer.status != http.StatusUnauthorized:
			return answer.fault()
		}
		if challenge = answer.challenge(); challenge == nil {
			break
		}
	}
	return errRefused
}

// refusal is a host.ErrRefused.
type refusal string

func (r refusal) Error() string { return string(r) }

// Unwrap is host.ErrRefused.
func (refusal) Unwrap() error { return host.ErrRefused }

const errRefused = refusal("the WinRM server refuses the user or the password, or does not allow this way to log in")

// bound ties a login to the connection that it is for (RFC 5929, 4: the hash is that of the certificate's signature, and SHA-256 for weaker ones).
func bound(c *x509.Certificate) *ntlmssp.ChannelBindings {
	sum := crypto.SHA256.New()
	switch c.SignatureAlgorithm {
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		sum = crypto.SHA384.New()
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		sum = crypto.SHA512.New()
	}
	sum.Write(c.Raw)
	return &ntlmssp.ChannelBindings{ApplicationData: sum.Sum([]byte("tls-server-end-point:"))}
}

// tls says which certificates are believed.
func (t *transport) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.options.Fingerprint != "" {
		c.InsecureSkipVerify = true //nolint:gosec // the certificate itself is known
		c.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !slices.Contains(strings.Fields(t.options.Fingerprint), Fingerprint(raw[0])) {
				return errors.New("the server's certificate is another one than was expected")
			}
			return nil
		}
	}
	if t.options.Roots != nil {
		c.RootCAs = t.options.Roots
	}
	return c
}

// Fingerprint is that of a certificate (DER): "SHA256:…", as those of SSH's keys.
func Fingerprint(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// answer is what a server says.
type answer struct {
	status int
	kind   string // of content
	text   []byte
	header http.Header
}

// challenge is what the server asks of who logs in; nil where it refuses.
func (a *answer) challenge() []byte {
	for _, offer := range a.header.Values("WWW-Authenticate") {
		if text, is := strings.CutPrefix(offer, "Negotiate "); is {
			if message, err := base64.StdEncoding.DecodeString(text); err == nil {
				return message
			}
		}
	}
	return nil
}

// send sends a message and returns the answer.
func (t *transport) send(s *session, text string) (string, error) {
	body, kind, authorization := []byte(text), contentType, ""
	if t.options.Basic {
		authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(t.options.User+":"+t.options.Password))
	}
	if s.seal != nil {
		var err error
		if body, kind, err = sealed(s.seal, body); err != nil {
			return "", err
		}
	}
	a, err := t.post(s, body, kind, authorization)
	switch {
	case err != nil:
		return "", err
	case a.status == http.StatusUnauthorized:
		return "", errRefused
	case s.seal != nil:
		if a.text, err = opened(s.seal, a); err != nil {
			return "", err
		}
	}
	if a.status != http.StatusOK {
		return "", a.fault()
	}
	return string(a.text), nil
}

// sealed is a message that only the server can read, and its type (MS-WSMV 2.2.9.1).
func sealed(session *ntlmssp.SecuritySession, message []byte) (body []byte, kind string, err error) {
	text, signature, err := session.Wrap(message)
	if err != nil {
		return nil, "", err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\r\n\tContent-Type: application/HTTP-SPNEGO-session-encrypted\r\n\tOriginalContent: type=%s;Length=%d\r\n%s\r\n\t%s", boundary, contentType, len(message), boundary, octets)
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(signature))))
	b.Write(signature)
	b.Write(text)
	b.WriteString(boundary + "--\r\n")
	return b.Bytes(), sealedType, nil
}

// The form of sealed messages. The part with the message is of bytes: its end is that of the whole, and no line of it is looked at.
const (
	boundary   = "--Encrypted Boundary"
	octets     = "Content-Type: application/octet-stream\r\n"
	sealedType = `multipart/encrypted;protocol="application/HTTP-SPNEGO-session-encrypted";boundary="Encrypted Boundary"`
)

// opened is an answer that only the server can have sealed.
func opened(session *ntlmssp.SecuritySession, a *answer) ([]byte, error) {
	const size, signature = 4, 16 // bytes of the length of a signature, and of a signature
	if !strings.HasPrefix(a.kind, "multipart/encrypted") {
		return nil, fmt.Errorf("the WinRM server answers with status %d, and without a seal", a.status)
	}
	_, data, found := bytes.Cut(a.text, []byte(octets))
	end := bytes.LastIndex(data, []byte(boundary+"--"))
	if !found || end < size+signature || binary.LittleEndian.Uint32(data) != signature {
		return nil, errors.New("the answer of the WinRM server has no signature")
	}
	data = data[size:end]
	text, err := session.Unwrap(data[signature:], data[:signature])
	if err != nil {
		return nil, fmt.Errorf("the answer of the WinRM server: %w", err)
	}
	return text, nil
}

// post sends a body.
func (t *transport) post(s *session, body []byte, kind, authorization string) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(t.life, operationTime+answerTime, errors.New("it does not answer"))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.options.url(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	failed := func(err error) error {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &broken{err}
	}
	if err := request.Write(s); err != nil {
		return nil, failed(err)
	}
	response, err := http.ReadResponse(s.answers, request)
	if err != nil {
		return nil, failed(err)
	}
	defer response.Body.Close()
	s.last = response.Close
	a := &answer{status: response.StatusCode, kind: response.Header.Get("Content-Type"), header: response.Header}
	if a.text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return nil, failed(err)
	}
	if len(a.text) > maxAnswer {
		return nil, fmt.Errorf("the answer of the WinRM server has more than %d bytes", maxAnswer)
	}
	return a, nil
}

// fault is the answer as a fault.
func (a *answer) fault() *Fault {
	var envelope struct {
		Body struct {
			Fault struct {
				Subcode string `xml:"Code>Subcode>Value"`
				Reason  string `xml:"Reason>Text"`
				Detail  struct {
					WSMan struct {
						Code string `xml:"Code,attr"`
					} `xml:"WSManFault"`
				}
			}
		}
	}
	f := &Fault{Status: a.status}
	if xml.NewDecoder(bytes.NewReader(a.text)).Decode(&envelope) != nil {
		return f
	}
	said := envelope.Body.Fault
	f.Code, f.Reason = said.Subcode, strings.Join(strings.Fields(said.Reason), " ")
	if said.Detail.WSMan.Code != "" {
		f.Code = said.Detail.WSMan.Code
	}
	return f
}
