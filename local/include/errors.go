package include

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
)

// Error says why a file could not be had. It holds no secrets.
type Error struct {
	What string // where it was looked for
	Why  string
	Hint string // what to do about it; may be empty
	Err  error  // the error below, for errors.As
}

func (e *Error) Error() string {
	text := e.What + ": " + e.Why
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the error below.
func (e *Error) Unwrap() error { return e.Err }

// offlineError says that something would have to be fetched.
type offlineError struct{ what string }

func (e *offlineError) Error() string {
	return e.what + ": it is not in the cache, and --offline prevents fetching it"
}

// explain makes an error for people of one of a source. Instead is another way to get the file.
func explain(err error, instead string) error {
	var (
		missing *source.NotFoundError
		denied  *source.DeniedError
		failed  *source.FetchError
		offline *offlineError
		status  *download.StatusError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return &Error{What: missing.Ref, Why: notFound(missing), Hint: instead, Err: err}
	case errors.As(err, &denied):
		hint := denied.Hint
		if hint == "" {
			hint = instead
		}
		return &Error{What: denied.What, Why: denied.Why, Hint: hint, Err: err}
	case errors.As(err, &offline):
		return &Error{What: offline.what, Why: "it is not in the cache, and --offline prevents fetching it", Hint: "run once without --offline, or " + instead, Err: err}
	case errors.As(err, &failed) && (errors.As(err, &status) || errors.Is(err, fs.ErrNotExist)):
		return &Error{What: failed.What, Why: source.MaskUserinfo(failed.Err.Error()), Hint: instead, Err: err}
	case errors.As(err, &failed):
		hint := failed.Hint
		if hint == "" {
			hint = "--offline uses what is in the cache; " + instead
		}
		return &Error{What: failed.What, Why: unreachable(failed.Err), Hint: hint, Err: err}
	}
	return err
}

// notFound says where something was looked for.
func notFound(e *source.NotFoundError) string {
	text := "it does not exist"
	if len(e.Looked) > 0 {
		text += "; looked for " + strings.Join(e.Looked, " and ")
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// unreachable says what is wrong with a network.
func unreachable(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Sprintf("the host %s cannot be resolved", dns.Name)
	}
	return "it cannot be reached: " + source.MaskUserinfo(download.Plain(err).Error())
}

// failure makes an error of a source of one of a download.
func failure(at *source.Location, err error) error {
	var status *download.StatusError
	var large *download.TooLargeError
	switch {
	case errors.As(err, &large), errors.Is(err, download.ErrRedirect):
		return &source.DeniedError{What: at.Name, Why: download.Plain(err).Error()}
	case !errors.As(err, &status):
		return &source.FetchError{What: at.Name, Err: err}
	}
	switch status.Code {
	case 404, 410:
		return &source.NotFoundError{Ref: at.Name, Err: status}
	case 401, 403:
		return &source.DeniedError{What: at.Name, Why: status.Error(), Hint: "configure credentials for the host in sources.toml or netrc"}
	}
	return &source.FetchError{What: at.Name, Err: status}
}
