package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// callTime is how long an engine may take for a call that is not a stream: the last resort against one that hangs.
	callTime = 5 * time.Minute
	// maxAnswer bounds an answer that is not a stream, in bytes.
	maxAnswer = 16 << 20
	// maxRefusal bounds an answer that is an error, in bytes.
	maxRefusal = 64 << 10
	// wrongState is why Podman refuses, with 500, what Docker calls a conflict: a container that does not run, or does.
	wrongState = "container state improper"
)

// Error is an engine's "no".
type Error struct {
	Status  int    // of HTTP; 0 where an error came later than that
	Message string // the engine's own words
}

func (e *Error) Error() string { return e.Message }

// Status is the status of HTTP with which an engine refused a call; 0 is another error, or none.
func Status(err error) int {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

// request is a call of the API.
type request struct {
	method string
	path   string // below the version
	query  url.Values
	header http.Header
	body   any // an io.Reader is a tar archive; all else is JSON; nil is none
}

// build makes the request of a call, in the version that was agreed on; "" is any.
func (c *Client) build(ctx context.Context, q *request, version string) (*http.Request, error) {
	u := url.URL{Scheme: "http", Host: localHost, Path: c.address.path + version + q.path, RawQuery: q.query.Encode()}
	if c.address.network == "tcp" {
		u.Host = c.address.place
	}
	if c.tls != nil {
		u.Scheme = "https"
	}
	var body io.Reader
	kind := ""
	switch b := q.body.(type) {
	case nil:
	case io.Reader:
		body, kind = struct{ io.Reader }{b}, "application/x-tar" // closing it is not for the client
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", "rung")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return r, nil
}

// prepare makes the request of a call, when the version is agreed on.
func (c *Client) prepare(ctx context.Context, q *request) (*http.Request, error) {
	version, err := c.agreed(ctx)
	if err != nil {
		return nil, err
	}
	return c.build(ctx, q, version)
}

// open sends a call and returns the answer for reading, which must be closed.
func (c *Client) open(ctx context.Context, q *request) (io.ReadCloser, error) {
	r, err := c.prepare(ctx, q)
	if err != nil {
		return nil, err
	}
	response, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// send sends a request. The answer is the engine's "yes".
func (c *Client) send(r *http.Request) (*http.Response, error) {
	response, err := c.http.Do(r)
	if err != nil {
		if ctx := r.Context(); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the rest is the address, which those who ask know
		}
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

// refusal reads the error out of an answer.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	e := &Error{Status: response.StatusCode}
	var body struct{ Message, Cause string }
	if json.Unmarshal(text, &body) == nil && body.Message != "" {
		e.Message = body.Message
		if body.Cause == wrongState {
			e.Status = http.StatusConflict
		}
	} else if e.Message = strings.TrimSpace(string(text)); e.Message == "" || json.Valid(text) {
		e.Message = fmt.Sprintf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return e
}

// within is a context for an answer that must not take longer.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not answer within %s", limit))
}

// call sends a call and reads the answer, JSON, into out; nil is whatever it is.
func (c *Client) call(ctx context.Context, q *request, out any) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	return c.patiently(ctx, q, out)
}

// patiently is call without a limit of its own.
func (c *Client) patiently(ctx context.Context, q *request, out any) error {
	body, err := c.open(ctx, q)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("reading the engine's answer: %w", err)
	case len(text) > maxAnswer:
		return fmt.Errorf("the engine's answer is longer than %d bytes", maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the engine's answer cannot be understood: %w", err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, &request{method: http.MethodGet, path: path, query: query}, out)
}

func (c *Client) post(ctx context.Context, path string, query url.Values, body, out any) error {
	return c.call(ctx, &request{method: http.MethodPost, path: path, query: query, body: body}, out)
}

func (c *Client) remove(ctx context.Context, path string, query url.Values) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: path, query: query}, nil)
}

// labelled asks a list for what carries a label with a value.
func labelled(label, value string) url.Values {
	filters, _ := json.Marshal(map[string][]string{"label": {label + "=" + value}}) // strings alone cannot fail
	return url.Values{"filters": {string(filters)}}
}

// identified is something that was made, or found.
type identified struct{ ID string }

func ids(found []identified) (ids []string) {
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	return ids
}
