package download

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Request is a file to be downloaded.
type Request struct {
	URL    *url.URL // without credentials
	Client *http.Client
	// Do sends a request; nil is the client's, which follows redirects safely.
	Do func(*http.Request) (*http.Response, error)
	// Immutable says that what is at the address never changes: a part of it can be gone on with whatever the server says.
	Immutable          bool
	Username, Password string // for basic authentication; both "" for none
	MaxSize            int64  // in bytes
	Policy             Policy
	Meter              *Meter // may be nil
}

// TooLargeError says that a file is larger than allowed.
type TooLargeError struct {
	Size, Limit int64 // in bytes; Size is 0 when only known to be more
}

func (e *TooLargeError) Error() string {
	if e.Size > 0 {
		return fmt.Sprintf("it is %d MiB large, and %d MiB is the limit", e.Size>>20, e.Limit>>20)
	}
	return fmt.Sprintf("it is larger than the limit of %d MiB", e.Limit>>20)
}

// state is what is known about the file so far. It is beside it.
type state struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	Complete     bool   `json:"complete,omitempty"`
}

// validator is what tells that a file has not changed since; "" when nothing does. A weak tag is none for parts of a file.
func (s *state) validator() string {
	if s.ETag != "" && !strings.HasPrefix(s.ETag, "W/") {
		return s.ETag
	}
	return s.LastModified
}

func statePath(path string) string { return path + ".json" }

// Complete reports whether a download to path has come to its end.
func Complete(path string) bool {
	s := readState(path)
	_, err := os.Stat(path)
	return err == nil && s.Complete
}

// Remove deletes what was downloaded to path.
func Remove(path string) error {
	err := os.Remove(path)
	if serr := os.Remove(statePath(path)); err == nil {
		err = serr
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func readState(path string) (s state) {
	if data, err := os.ReadFile(statePath(path)); err != nil || json.Unmarshal(data, &s) != nil {
		return state{}
	}
	return s
}

func (s *state) write(path string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(statePath(path), data, 0o600)
}

// To downloads the file to path. What an earlier call left there is gone on with where the server can say that its file is
// still the same. The error is a *StatusError, a *TooLargeError or one of the network; it does not hold the address.
func (r *Request) To(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	do := r.Do
	if do == nil {
		do = Client(r.Client).Do
	}
	var most int64 // that any try had: to come to the same point again is no progress
	err = r.Policy.Do(ctx, func(ctx context.Context) (moved bool, err error) {
		err = r.try(ctx, do, f, path)
		if size, serr := f.Seek(0, io.SeekEnd); serr == nil && size > most {
			most, moved = size, true
		}
		return moved, Plain(err)
	})
	r.Meter.Done()
	if err != nil {
		return err
	}
	return f.Close()
}

// try makes one request.
func (r *Request) try(ctx context.Context, do func(*http.Request) (*http.Response, error), f *os.File, path string) error {
	s := readState(path)
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	watch := r.Policy.Watch(ctx)
	defer watch.Stop()
	resp, err := do(r.request(watch.Context(), s, have))
	if err != nil {
		return watch.Err(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && s.Complete:
		return nil
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0:
		// The file has become shorter. From the start: nothing of ours fits any more.
		return r.restart(f, path)
	case resp.StatusCode == http.StatusPartialContent && have > 0 && startsAt(resp, have):
	case resp.StatusCode == http.StatusOK:
		have = 0
		if err := f.Truncate(0); err != nil {
			return err
		}
	case resp.StatusCode == http.StatusPartialContent:
		return r.restart(f, path)
	default:
		if status := Status(resp); status != nil {
			return status
		}
		return &StatusError{Code: resp.StatusCode}
	}
	return r.receive(watch, resp, f, path, have)
}

// restart forgets what is there. The error asks for another try.
func (r *Request) restart(f *os.File, path string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if err := os.Remove(statePath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("the file changed on the server: %w", io.ErrUnexpectedEOF)
}

func (r *Request) request(ctx context.Context, s state, have int64) *http.Request {
	u := *r.URL
	u.Fragment = ""
	req := (&http.Request{Method: http.MethodGet, URL: &u, Host: u.Host, Header: http.Header{}}).WithContext(ctx)
	// What is stored is what its digest is about: no compression on the way.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "step-runner")
	if r.Username != "" || r.Password != "" {
		req.SetBasicAuth(r.Username, r.Password)
	}
	switch {
	case s.Complete && s.ETag != "":
		req.Header.Set("If-None-Match", s.ETag)
	case s.Complete && s.LastModified != "":
		req.Header.Set("If-Modified-Since", s.LastModified)
	case !s.Complete && have > 0 && (r.Immutable || s.validator() != ""):
		req.Header.Set("Range", "bytes="+strconv.FormatInt(have, 10)+"-")
		if !r.Immutable {
			req.Header.Set("If-Range", s.validator())
		}
	}
	return req
}

// startsAt reports whether a part of a file begins where ours ends.
func startsAt(resp *http.Response, have int64) bool {
	span, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
	first, _, dash := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	return ok && dash && err == nil && start == have
}

// receive writes the body behind the have bytes that are there.
func (r *Request) receive(watch *Watch, resp *http.Response, f *os.File, path string, have int64) error {
	total := int64(0)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if total > r.MaxSize {
		return &TooLargeError{total, r.MaxSize}
	}
	s := state{ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")}
	if err := s.write(path); err != nil {
		return err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	body := watch.Reader(resp.Body)
	buf := make([]byte, 64<<10)
	for {
		n, rerr := body.Read(buf)
		if n > 0 {
			if have += int64(n); have > r.MaxSize {
				return &TooLargeError{0, r.MaxSize}
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return err
			}
			r.Meter.Set(have, total)
		}
		if errors.Is(rerr, io.EOF) {
			s.Complete = true
			return s.write(path)
		}
		if rerr != nil {
			return rerr
		}
	}
}
