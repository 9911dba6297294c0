// Package download downloads files over unreliable networks: it retries, resumes partial downloads, and gives up on a server that stops
// responding. It never sends credentials to a host that they are not for.
package download

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// How long, and how often, by default.
const (
	DefaultAttempts  = 5                      // tries in a row that bring nothing
	DefaultFirstWait = 500 * time.Millisecond // before the second try; it doubles
	DefaultStall     = 60 * time.Second       // without a byte
	MaxWait          = 30 * time.Second       // between two tries
	MaxRetryAfter    = 2 * time.Minute        // that a server may ask for
	MaxTries         = 50                     // of one file, whatever they bring
)

// Policy is how long to go on with a server that fails. Zero values are the defaults.
type Policy struct {
	Attempts  int           // tries in a row that bring nothing
	FirstWait time.Duration // before the second try; it doubles
	Stall     time.Duration // without a byte
}

func (p Policy) attempts() int {
	if p.Attempts > 0 {
		return p.Attempts
	}
	return DefaultAttempts
}

func (p Policy) stall() time.Duration {
	if p.Stall > 0 {
		return p.Stall
	}
	return DefaultStall
}

// wait is the time before the next try when the last failed tries brought nothing.
func (p Policy) wait(failed int) time.Duration {
	wait := p.FirstWait
	if wait <= 0 {
		wait = DefaultFirstWait
	}
	for range failed - 1 {
		if wait *= 2; wait > MaxWait {
			return MaxWait
		}
	}
	return wait
}

// Do calls try until it works, or fails in a way that another try would not change. Moved says that the try brought
// something, even where it failed.
func (p Policy) Do(ctx context.Context, try func(context.Context) (moved bool, err error)) error {
	failed := 0
	var last error
	for range MaxTries {
		moved, err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		last = err
		if failed++; moved {
			failed = 1
		}
		if !Temporary(err) || failed >= p.attempts() || errors.Is(err, ErrStalled) && !moved {
			return err
		}
		wait := p.wait(failed)
		var status *StatusError
		if errors.As(err, &status) && status.After > 0 {
			wait = min(status.After, MaxRetryAfter)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return fmt.Errorf("it broke off too often: %w", last)
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// StatusError is what a server answered instead of the file.
type StatusError struct {
	Code  int
	After time.Duration // what it asked to wait for; 0 when it did not
	Said  string        // its own words; may be empty
}

func (e *StatusError) Error() string {
	msg := fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Said != "" {
		msg += ": " + e.Said
	}
	return msg
}

// Status returns the error in a response, nil when it is none.
func Status(resp *http.Response) *StatusError {
	if resp.StatusCode < 400 {
		return nil
	}
	e := &StatusError{Code: resp.StatusCode}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		e.After = time.Duration(min(seconds, int(MaxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		e.After = max(0, time.Until(at))
	}
	return e
}

// ErrStalled says that a server sent nothing for too long.
var ErrStalled = errors.New("the server stopped sending")

// ErrRedirect is what errors about refused redirects wrap.
var ErrRedirect = errors.New("refused to follow a redirect")

// Temporary reports whether what failed may work a moment later.
func Temporary(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		switch status.Code {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var unknown *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, http.ErrSchemeMismatch), errors.Is(err, ErrRedirect):
		return false
	case errors.As(err, &unknown) && unknown.IsNotFound, errors.As(err, &certificate), errors.As(err, &authority):
		return false
	case errors.Is(err, ErrStalled), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPIPE):
		return true
	}
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// Plain takes the address out of an error of net/http: it may hold credentials, and of a redirect it often does.
func Plain(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
