// Package transfer sends files to servers and gets files from them, for the steps of the catalog.
//
//   - A request is made again where that can help: when the network fails, and when the server says that it is busy or broken. The
//     content of a request is opened again each time, and its signature made again.
//   - Nothing has to fit into memory, and no transfer has a limit of time as long as bytes move. One that stands still is given up.
//   - A redirect to another server is followed without what the request was authorised with.
//   - Errors name the address without user, password, query and fragment, which is where addresses hold secrets.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// How a request is repeated, and when one is given up.
const (
	// DefaultAttempts is how often a request is made in all.
	DefaultAttempts = 3
	// DefaultStall is how long nothing may move.
	DefaultStall = time.Minute
	// MaxWait bounds the time between two attempts, also where a server asks for more.
	MaxWait = 30 * time.Second

	firstWait    = time.Second
	maxRedirects = 10
)

// Client makes requests. The zero value does.
type Client struct {
	// Transport carries the requests; nil is one that goes by the proxy settings of the environment.
	Transport http.RoundTripper
	// Attempts is how often a request is made in all; 0 is DefaultAttempts. BusyAttempts is the same for a server that says it is
	// busy (503); 0 is Attempts.
	Attempts, BusyAttempts int
	// Stall is how long nothing may move; 0 is DefaultStall.
	Stall time.Duration
	// Limit is how long one attempt may take, until the answer begins; 0 is as long as bytes move.
	Limit time.Duration
	// Again is told of every attempt that failed and is repeated; may be nil.
	Again func(err error, wait time.Duration)
	// Wait waits between attempts; nil is real time.
	Wait func(ctx context.Context, d time.Duration) error
}

// Request is a request that can be made more than once.
type Request struct {
	Method string // empty is GET
	URL    string
	Header http.Header
	// Secret are the names of headers that must not reach another server by a redirect. Authorization and Cookie are always among them.
	Secret []string
	// Body opens the content, Size bytes of it; nil is none.
	Body func() (io.ReadCloser, error)
	Size int64
	// Sign is called on every attempt, as the last, since signatures hold the time; may be nil.
	Sign func(r *http.Request) error
	// Once says that making the request twice is not the same as making it once: it is repeated only where it did not reach the server, or
	// where the server says that it did nothing.
	Once bool
}

// Do makes a request until it succeeds (2xx), an attempt fails in a way that repeating does not mend, or there were enough attempts.
// The caller closes the body of the response. The error is a *StatusError when the server answered.
func (c *Client) Do(ctx context.Context, r Request) (resp *http.Response, err error) {
	err = c.repeat(ctx, r, func() error {
		resp, err = c.once(ctx, r)
		return err
	})
	return resp, err
}

// repeat makes attempts until one succeeds, or there is no sense in another.
func (c *Client) repeat(ctx context.Context, r Request, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case attempt >= c.attempts(err) || !repeatable(r, err):
			return err
		}
		wait := pause(attempt, err)
		if c.Again != nil {
			c.Again(err, wait)
		}
		if err := c.wait(ctx, wait); err != nil {
			return err
		}
	}
}

func (c *Client) attempts(err error) int {
	attempts := c.Attempts
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	var status *StatusError
	if c.BusyAttempts > attempts && errors.As(err, &status) && status.Status == http.StatusServiceUnavailable {
		return c.BusyAttempts
	}
	return attempts
}

// repeatable reports whether the same request may fare better.
func repeatable(r Request, err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		if r.Once {
			return status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable
		}
		return status.Temporary()
	}
	var failed *NetworkError
	if !errors.As(err, &failed) {
		return false
	}
	var op *net.OpError
	return !r.Once || errors.As(err, &op) && op.Op == "dial"
}

// pause returns how long to wait after an attempt: twice as long each time, and not the same for all who wait; or what the server asks for.
func pause(attempt int, err error) time.Duration {
	wait := firstWait << min(attempt-1, 10)
	wait += rand.N(wait / 2)
	var status *StatusError
	if errors.As(err, &status) {
		wait = max(wait, status.After)
	}
	return min(wait, MaxWait)
}

func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if c.Wait != nil {
		return c.Wait(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// once makes one attempt.
func (c *Client) once(ctx context.Context, r Request) (*http.Response, error) {
	ctx, watch := newWatch(ctx, c.Stall)
	if c.Limit > 0 {
		defer time.AfterFunc(c.Limit, func() { watch.cancel(&stalledError{fmt.Sprintf("it took longer than %v", c.Limit)}) }).Stop()
	}
	req, err := request(ctx, r, watch)
	if err != nil {
		watch.stop()
		return nil, err
	}
	client := &http.Client{Transport: c.Transport, CheckRedirect: redirect(r.Secret)}
	if c.Transport == nil {
		client.Transport = shared()
	}
	resp, err := client.Do(req)
	if err != nil {
		err = watch.explain(err)
		watch.stop()
		return nil, &NetworkError{Method: req.Method, Address: Address(r.URL), Err: bare(err)}
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: watch, ends: true}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, newStatusError(req.Method, r.URL, resp)
	}
	return resp, nil
}

func request(ctx context.Context, r Request, watch *watch) (*http.Request, error) {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	if err := checkURL(r.URL); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Address(r.URL), bare(err))
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	if r.Body != nil {
		open := func() (io.ReadCloser, error) {
			body, err := r.Body()
			if err != nil {
				return nil, err
			}
			return &watchedBody{ReadCloser: body, watch: watch}, nil
		}
		req.ContentLength = r.Size
		if r.Size == 0 {
			req.Body = http.NoBody
		} else {
			if req.Body, err = open(); err != nil {
				return nil, err
			}
			req.GetBody = open
		}
	}
	if r.Sign != nil {
		if err := r.Sign(req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// redirect lets redirects be followed, without secrets where they lead to another server, and not from HTTPS to plain HTTP.
func redirect(secret []string) func(req *http.Request, via []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case via[0].Method != req.Method: // a browser would go on with GET, and nothing would be sent
			return fmt.Errorf("redirected to %s; use that address", Address(req.URL.String()))
		case len(via) >= maxRedirects:
			return fmt.Errorf("redirected %d times", len(via))
		case req.URL.Scheme != "https" && req.URL.Scheme != "http":
			return fmt.Errorf("redirected to an address that is not of HTTP: %s", Address(req.URL.String()))
		case first.Scheme == "https" && req.URL.Scheme == "http":
			return fmt.Errorf("redirected from HTTPS to plain HTTP: %s", Address(req.URL.String()))
		}
		req.Header.Del("Referer") // it holds the query of the address before
		for _, hop := range append(slices.Clone(via[1:]), req) {
			if !sameServer(first, hop.URL) {
				for _, name := range append([]string{"Authorization", "Cookie"}, secret...) {
					req.Header.Del(name)
				}
				break
			}
		}
		return nil
	}
}

func sameServer(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
