// Package gitlab speaks GitLab's runner API (v4): it registers runners, asks for jobs, reports their state and sends their logs.
//
//	Client.RequestJob ──> Job ──> (somebody runs it) ──> Client.PatchTrace, Client.UpdateJob
//
// Package gitlabtest is a strict stand-in of the server.
//
// A request is repeated if GitLab asks for that: a rate limit, maintenance, a broken proxy. An answer that is not a success is a
// *StatusError, and a request without a usable answer is a *NetworkError. No error shows a token.
//
// Source: lib/api/ci/runner.rb in GitLab, network/ in gitlab-runner.
package gitlab

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Limits of what a server can do to us.
const (
	// MaxAnswer is the size of the largest answer that is read, in bytes. The largest job is far below it.
	MaxAnswer = 32 << 20
	// DefaultTimeout is far longer than GitLab holds a request for a job, which is 50 seconds.
	DefaultTimeout = 10 * time.Minute
	// MaxMessage is how much of an error's text is kept, in bytes.
	MaxMessage = 1 << 10

	maxRedirects = 10
)

// Options are those of a Client.
type Options struct {
	// URL is GitLab's address, as `url` in config.toml: https://gitlab.example.com, with or without a trailing "/" or "/ci".
	URL string
	// Transport carries the requests; nil is http.DefaultTransport.
	Transport http.RoundTripper
	// Info is what requests say of this runner.
	Info Info
	// Observe is told of every attempt; may be nil. It must not block.
	Observe func(Attempt)
	// Timeout bounds each attempt, from its connection to the end of its answer; 0 is DefaultTimeout.
	Timeout time.Duration
	// Wait waits between attempts; nil is real time.
	Wait func(ctx context.Context, d time.Duration) error
}

// Attempt is one request that was made.
type Attempt struct {
	Method   string
	Endpoint string // the path with {id} for every number: /api/v4/jobs/{id}/trace
	Status   int    // 0 without an answer
	Duration time.Duration
	Repeated bool // the same request had been made before
}

// Client speaks to one GitLab. It is safe for concurrent use.
type Client struct {
	base string // ends in /api/v4
	opts Options
	http *http.Client

	verified atomic.Pointer[[]*x509.Certificate] // from GitLab's certificate to the one that is trusted, at the last answer; nil without TLS
}

// New returns a client. The error says what is wrong with the address.
func New(o Options) (*Client, error) {
	base, err := baseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Wait == nil {
		o.Wait = sleep
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Observe == nil {
		o.Observe = func(Attempt) {}
	}
	return &Client{base: base, opts: o, http: &http.Client{Transport: o.Transport, CheckRedirect: redirect}}, nil
}

// errSilent says that an attempt took longer than Options.Timeout.
var errSilent = errors.New("GitLab did not answer in time")

// redirect follows redirects that repeat the request as it was, on the same host or from http to https there. A request has a token in it, which
// no other host may see.
func redirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	case req.URL.Hostname() != first.URL.Hostname():
		return fmt.Errorf("GitLab redirects to another host, %s: if that is its address, use it as `url`", req.URL.Host)
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("GitLab redirects to %s without encryption: check `url`", req.URL.Host)
	case req.Method != first.Method:
		return fmt.Errorf("GitLab redirects %s with a status that makes it %s: check `url`", first.Method, req.Method)
	}
	return nil
}

// baseURL is the address of the API below the address that users give.
func baseURL(address string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return "", errors.New("the address of GitLab is not a URL") // the reason would show what is in it
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the address of GitLab must begin with https:// or http://, and has scheme %q", u.Scheme)
	case u.Host == "":
		return "", errors.New("the address of GitLab has no host")
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/ci")
	return (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: strings.TrimRight(path, "/") + "/api/v4"}).String(), nil
}

// URL is the address of the API, ending in /api/v4.
func (c *Client) URL() string { return c.base }

// Chain is what GitLab's certificate was verified with when it answered last, in PEM: all certificates up to the one that this machine trusts, which
// is GitLab's own if nobody else has signed it. It is empty without TLS, and before the first answer.
func (c *Client) Chain() string {
	chain := c.verified.Load()
	if chain == nil {
		return ""
	}
	signers := *chain
	if len(signers) > 1 {
		signers = signers[1:]
	}
	var out []byte
	for _, s := range signers {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Raw})...)
	}
	return string(out)
}

// request is one call.
type request struct {
	method, path string
	header       http.Header
	body         any               // is sent as JSON; nil is none
	raw          *io.SectionReader // is sent instead of body
	accept       []int             // the statuses that are no error
	into         any               // where the JSON of an accepted answer goes; nil ignores it
}

// content is a body in memory.
func content(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes a request, several times if GitLab asks for that. An answer comes with a *StatusError, too.
func (c *Client) do(ctx context.Context, r request) (*answer, error) {
	endpoint := r.method + " " + Endpoint(r.path)
	body := r.raw
	if r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("%s: encoding the request: %w", endpoint, err)
		}
		body = content(encoded)
	}
	header := http.Header{"User-Agent": {c.opts.Info.userAgent()}, "X-Request-Id": {requestID()}}
	if r.body != nil {
		header.Set("Content-Type", "application/json")
	}
	if r.into != nil {
		header.Set("Accept", "application/json")
	}
	for name, values := range r.header {
		header[name] = values
	}
	failed := func(err error) error {
		return &NetworkError{Endpoint: endpoint, RequestID: header.Get("X-Request-Id"), Err: withoutURL(err)}
	}
	for attempt := 1; ; attempt++ {
		got, err := c.attempt(ctx, r, header, body, attempt > 1)
		switch {
		case err != nil:
			return nil, failed(err)
		case attempt < maxAttempts && repeatable(got.status):
			if err := c.opts.Wait(ctx, backoff(attempt, got.header)); err != nil {
				return nil, failed(fmt.Errorf("waiting after status %d: %w", got.status, err))
			}
			continue
		case !slices.Contains(r.accept, got.status):
			return got, statusError(endpoint, got, header.Get("X-Request-Id"))
		case r.into == nil || got.status == http.StatusNoContent:
			return got, nil
		}
		if err := decode(got, r.into); err != nil {
			return got, failed(err)
		}
		return got, nil
	}
}

// attempt makes a request once and reads the whole answer. The body may be nil, and is read from its beginning.
func (c *Client) attempt(ctx context.Context, r request, header http.Header, body *io.SectionReader, repeated bool) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errSilent)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if body != nil && body.Size() > 0 {
		req.ContentLength = body.Size()
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(body, 0, body.Size())), nil }
		req.Body, _ = req.GetBody()
	}
	req.Header = header
	seen := Attempt{Method: r.method, Endpoint: Endpoint(r.path), Repeated: repeated}
	start := time.Now()
	defer func() {
		seen.Duration = time.Since(start)
		c.opts.Observe(seen)
	}()
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.TLS != nil && len(resp.TLS.VerifiedChains) > 0 {
		c.verified.Store(&resp.TLS.VerifiedChains[0])
	}
	seen.Status = resp.StatusCode
	read, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if len(read) > MaxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: read}, nil
}

// decode reads an answer that must be JSON. What is not JSON comes from something other than GitLab, such as a proxy's page.
func decode(got *answer, into any) error {
	kind, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return fmt.Errorf("the answer is %q, not JSON: is the address that of GitLab?", got.header.Get("Content-Type"))
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		return fmt.Errorf("the answer is not what the runner API documents: %w", err)
	}
	return nil
}

// requestID is a new one, as GitLab makes them.
func requestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
