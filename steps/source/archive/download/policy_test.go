package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"
)

func TestWaitingDoublesUpToALimit(t *testing.T) {
	t.Parallel()
	p := Policy{FirstWait: 10 * time.Second}
	for failed, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 3: MaxWait, 50: MaxWait} {
		if got := p.wait(failed); got != want {
			t.Errorf("after %d failures it waits %s, want %s", failed, got, want)
		}
	}
	if got := (Policy{}).wait(1); got != DefaultFirstWait {
		t.Error(got)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "0": 0, "-1": 0, "": 0, "soon": 0, "99999999999": MaxRetryAfter, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {value}}}
		if got := Status(resp).After; got != want && value != "99999999999" || got > MaxRetryAfter {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if Status(&http.Response{StatusCode: 200}) != nil {
		t.Error("200 is not an error")
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&StatusError{Code: 429}, &StatusError{Code: 503}, ErrStalled, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED,
		&url.Error{Err: io.EOF}, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), &net.DNSError{IsTimeout: true},
	} {
		if !Temporary(err) {
			t.Errorf("%v is not tried again", err)
		}
	}
	for _, err := range []error{
		&StatusError{Code: 404}, &StatusError{Code: 501}, context.Canceled, http.ErrSchemeMismatch, ErrRedirect, &net.DNSError{IsNotFound: true},
		errors.New("disk full"), &TooLargeError{},
	} {
		if Temporary(err) {
			t.Errorf("%v is tried again", err)
		}
	}
}

func TestTriesAreCounted(t *testing.T) {
	t.Parallel()
	p := Policy{Attempts: 3, FirstWait: time.Nanosecond}
	for name, test := range map[string]struct {
		moved func(n int) bool
		want  int
	}{
		"in a row that bring nothing":          {func(int) bool { return false }, 3},
		"from the last that brought something": {func(n int) bool { return n == 2 }, 4},
		"all in all":                           {func(int) bool { return true }, MaxTries},
	} {
		n := 0
		err := p.Do(context.Background(), func(context.Context) (bool, error) {
			n++
			return test.moved(n), io.ErrUnexpectedEOF
		})
		if n != test.want || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d tries, want %d; %v", name, n, test.want, err)
		}
	}
}

func TestAServerThatSendsNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	p := Policy{FirstWait: time.Nanosecond}
	n := 0
	err := p.Do(context.Background(), func(context.Context) (bool, error) {
		n++
		return n == 1, ErrStalled
	})
	if n != 2 || !errors.Is(err, ErrStalled) {
		t.Errorf("%d tries, want one more after the one that brought something; %v", n, err)
	}
}

func TestAnErrorDoesNotShowTheAddress(t *testing.T) {
	t.Parallel()
	err := Plain(&url.Error{Op: "Get", URL: "https://me:s3cr3t@host/?token=s3cr3t", Err: io.EOF})
	if err.Error() != "EOF" {
		t.Error(err)
	}
}
