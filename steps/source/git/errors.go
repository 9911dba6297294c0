package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/tree"
)

// addressOf reads where a location is.
func addressOf(at *source.Location) (*address, error) {
	a, err := parseAddress(at.URL)
	if err != nil {
		return nil, &source.DeniedError{What: place(at), Why: err.Error()}
	}
	return a, nil
}

// place names a location for people.
func place(at *source.Location) string {
	name := at.Name
	if name == "" {
		name = at.URL
	}
	name = strings.TrimPrefix(source.WithoutUserinfo(name), "https://")
	if at.Rev != "" {
		name += "@" + at.Rev
	}
	return clean(name)
}

// connectionError says that a connection broke.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// errIdle says that a server does not answer.
var errIdle = errors.New("the server sends nothing any more")

// statusError is an answer over HTTP that is not what was asked for.
type statusError struct {
	code int
	sent bool // credentials were sent
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the server answers with %d %s", e.code, http.StatusText(e.code)))
}

// accessError says that a server does not let us in.
type accessError struct{ why, hint string }

func (e *accessError) Error() string { return e.why }

// mayPass reports whether an error may be gone the next time.
func mayPass(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code == http.StatusTooManyRequests || status.code >= 500 && status.code != http.StatusNotImplemented
	}
	var dns *net.DNSError
	if errors.Is(err, errIdle) || isTLS(err) || errors.As(err, &dns) && dns.IsNotFound {
		return false
	}
	var broken *connectionError
	var network net.Error
	return errors.As(err, &broken) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errNoPack)
}

// isTLS reports whether the other side is not who it should be, or does not speak TLS.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid) ||
		errors.As(err, &record) || errors.As(err, &alert)
}

// explain turns an error into one that a source.Fetcher returns.
func explain(ctx context.Context, at *source.Location, a *address, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var (
		notFound *source.NotFoundError
		denied   *source.DeniedError
		failed   *source.FetchError
	)
	if errors.As(err, &notFound) || errors.As(err, &denied) || errors.As(err, &failed) {
		return err
	}
	what := place(at)
	if url := a.url(); !strings.Contains(url, strings.TrimPrefix(source.WithoutUserinfo(at.Name), "https://")) {
		what += " (at " + url + ")" // where the user's sources map it to
	}
	var (
		noCommit *noCommitError
		path     *tree.PathError
		access   *accessError
		status   *statusError
		said     *remoteError
	)
	switch {
	case errors.As(err, &noCommit):
		return &source.NotFoundError{Ref: what, Looked: []string{"the commit " + noCommit.commit.String()}, Err: err}
	case errors.As(err, &path), errors.Is(err, tree.ErrLimit):
		return &source.DeniedError{What: what, Why: err.Error()}
	case errors.As(err, &access):
		return &source.DeniedError{What: what, Why: access.why, Hint: access.hint}
	case errors.As(err, &status):
		return explainStatus(what, a, status)
	case errors.As(err, &said):
		return explainRemote(what, a, said)
	case a.scheme == "file" && errors.Is(err, fs.ErrNotExist):
		return &source.NotFoundError{Ref: what, Looked: []string{a.path}}
	case errors.Is(err, errNoRepository):
		return &source.NotFoundError{Ref: what, Looked: []string{a.path}, Err: err}
	case errors.Is(err, fs.ErrPermission) && a.scheme == "file":
		return &source.DeniedError{What: what, Why: "the repository may not be read: " + err.Error()}
	case isTLS(err):
		hint := "if the host's certificate is right, add its authority to those that this system trusts"
		if record := (tls.RecordHeaderError{}); errors.As(err, &record) {
			hint = "the host does not speak TLS there; an address with http:// is for such hosts"
		}
		return &source.FetchError{What: what, Err: err, Hint: hint}
	}
	return &source.FetchError{What: what, Err: err}
}

func explainStatus(what string, a *address, e *statusError) error {
	switch e.code {
	case http.StatusForbidden:
		why := "the server does not let anybody in who does not say who it is (403)"
		if e.sent {
			why = "the server knows these credentials, and does not let them in (403)"
		}
		return &source.DeniedError{What: what, Why: why, Hint: credentialsHint(a)}
	case http.StatusNotFound, http.StatusGone:
		why := errors.New("the server has no such repository")
		if !e.sent {
			why = errors.New("the server has no such repository, or shows it only to those who have credentials")
		}
		return &source.NotFoundError{Ref: what, Looked: []string{a.url()}, Err: why}
	}
	return &source.FetchError{What: what, Err: e}
}

func credentialsHint(a *address) string {
	return "give credentials for " + a.hostPort() + " in sources.toml, in ~/.netrc or with a git credential helper"
}

// explainRemote goes by what servers say where there is no repository, or none for us: there is no other way to know.
func explainRemote(what string, a *address, e *remoteError) error {
	text := strings.ToLower(e.message)
	for _, missing := range []string{"not found", "could not be found", "does not exist", "no such repository", "not appear to be a git repository", "not a git repository"} {
		if strings.Contains(text, missing) {
			return &source.NotFoundError{Ref: what, Looked: []string{a.url()}, Err: e}
		}
	}
	for _, denied := range []string{"denied", "not allowed", "unauthorized", "forbidden", "permission"} {
		if strings.Contains(text, denied) {
			return &source.DeniedError{What: what, Why: e.Error()}
		}
	}
	return &source.FetchError{What: what, Err: e}
}
