package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rungci/rung/steps/source"
)

// httpRemote is a repository behind Git's smart HTTP protocol.
type httpRemote struct {
	client   *http.Client
	base     string // without credentials; where redirects lead to, once that is known
	user     string
	password string
	whence   string // where the credentials are from; "" where there are none
	finder   Credentials
	idle     time.Duration
	agent    string // the User-Agent
	mayAsk   bool   // the finder was not asked yet
}

const (
	refsPath     = "/info/refs"
	packPath     = "/git-upload-pack"
	refsType     = "application/x-git-upload-pack-advertisement"
	requestType  = "application/x-git-upload-pack-request"
	packType     = "application/x-git-upload-pack-result"
	maxRedirects = 10
)

func newHTTPRemote(a *address, access *source.Access, finder Credentials, idle time.Duration) *httpRemote {
	r := &httpRemote{base: a.url(), finder: finder, idle: idle, agent: userAgent, mayAsk: finder != nil}
	switch {
	case access.Username != "" || access.Password != "":
		r.user, r.password, r.whence = access.Username, access.Password, "sources.toml"
	case a.password != "" || a.user != "":
		r.user, r.password, r.whence = a.user, a.password, "the address"
	}
	r.client = uploadClient(access.HTTP)
	return r
}

// uploadClient is a client for Git's protocol: without cookies, and with our rules for redirects.
func uploadClient(like *http.Client) *http.Client {
	client := http.Client{}
	if like != nil {
		client = *like
	}
	// A large pack may take long; what is limited is how long nothing comes.
	client.Timeout = 0
	client.Jar = nil
	client.CheckRedirect = checkRedirect
	return &client
}

// checkRedirect lets a list of refs be somewhere else, but does not take credentials there.
func checkRedirect(to *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case first.Method != http.MethodGet:
		return fmt.Errorf("the server sends a request for a pack elsewhere, to %s", to.URL.Host)
	case len(via) > maxRedirects:
		return fmt.Errorf("the server sends from one address to another more than %d times", maxRedirects)
	case to.URL.Scheme != "https" && to.URL.Scheme != "http":
		return fmt.Errorf("the server sends to an address with %q", to.URL.Scheme)
	case first.URL.Scheme == "https" && to.URL.Scheme != "https":
		return fmt.Errorf("the server sends from https to %s, which is not encrypted", to.URL.Scheme)
	case !strings.HasSuffix(to.URL.Path, refsPath):
		return fmt.Errorf("the server sends to %s, which is not a repository", to.URL.Host)
	}
	if to.URL.Host != first.URL.Host {
		to.Header.Del("Authorization")
	}
	return nil
}

func (r *httpRemote) close() {}

func (r *httpRemote) refs(ctx context.Context) (*refs, error) {
	res, err := r.do(ctx, http.MethodGet, refsPath+"?service=git-upload-pack", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := checkType(res, refsType); err != nil {
		return nil, err
	}
	return readRefs(newPackets(io.LimitReader(res.Body, maxAdvertBytes)), true)
}

func (r *httpRemote) uploadPack(ctx context.Context, request []byte) (io.ReadCloser, error) {
	res, err := r.do(ctx, http.MethodPost, packPath, request)
	if err != nil {
		return nil, err
	}
	if err := checkType(res, packType); err != nil {
		res.Body.Close()
		return nil, err
	}
	return res.Body, nil
}

// checkType says what an answer is that is not Git's.
func checkType(res *http.Response, want string) error {
	got, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch got {
	case want:
		return nil
	case "text/html":
		return fmt.Errorf("%s answers with a web page, not as a Git repository", res.Request.URL.Host)
	case "text/plain", "application/octet-stream", "":
		return fmt.Errorf("%s answers with a plain file, not as a Git repository (Git's old way over HTTP is not supported)", res.Request.URL.Host)
	}
	return fmt.Errorf("%s answers with %q, not as a Git repository", res.Request.URL.Host, clean(got))
}

// do sends a request, and once more with credentials if the server asks for them.
func (r *httpRemote) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	for {
		res, err := r.once(ctx, method, path, body)
		if err != nil {
			return nil, err
		}
		if method == http.MethodGet {
			if err := r.follow(res.Request.URL); err != nil {
				res.Body.Close()
				return nil, err
			}
		}
		if res.StatusCode == http.StatusOK {
			return res, nil
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			return nil, &statusError{res.StatusCode, r.whence != ""}
		}
		if err := r.askForCredentials(ctx); err != nil {
			return nil, err
		}
	}
}

// follow notes where redirects led to. Credentials for one host are not for another.
func (r *httpRemote) follow(to *url.URL) error {
	base, ok := strings.CutSuffix(to.Scheme+"://"+to.Host+to.EscapedPath(), refsPath)
	if !ok {
		return errNotGit
	}
	if r.base == base {
		return nil
	}
	if from, err := url.Parse(r.base); err != nil || from.Host != to.Host {
		r.user, r.password, r.whence = "", "", ""
	}
	r.base = base
	return nil
}

// askForCredentials gets credentials for a server that wants some, or says why there are none.
func (r *httpRemote) askForCredentials(ctx context.Context) error {
	to, err := url.Parse(r.base)
	if err != nil {
		return errNotGit
	}
	host := &address{host: to.Hostname(), port: to.Port()}
	if r.whence != "" && (r.password != "" || !r.mayAsk) { // a user alone needs a password, or may be a token
		return &accessError{fmt.Sprintf("%s does not accept the credentials from %s (user %q)", host.hostPort(), r.whence, clean(r.user)), credentialsHint(host)}
	}
	if r.mayAsk {
		r.mayAsk = false
		if r.user != "" {
			to.User = url.User(r.user)
		}
		user, password, ok, err := r.finder.Git(ctx, to.String())
		if err != nil {
			return &accessError{fmt.Sprintf("%s asks for credentials, and getting them failed: %v", host.hostPort(), err), credentialsHint(host)}
		}
		if ok {
			r.user, r.password, r.whence = user, password, "netrc or a credential helper"
			return nil
		}
	}
	return &accessError{host.hostPort() + " asks for credentials, and there are none for it", credentialsHint(host)}
}

func (r *httpRemote) once(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(r.idle, func() { cancel(errIdle) })
	stop := func() {
		idle.Stop()
		cancel(nil)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		stop()
		return nil, errNotGit
	}
	req.Header.Set("User-Agent", r.agent)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", requestType)
		req.Header.Set("Accept", packType)
	}
	if r.whence != "" {
		req.SetBasicAuth(r.user, r.password)
	}
	res, err := r.client.Do(req)
	if err != nil {
		stop()
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, which is shown anyway
		}
		if cause := context.Cause(ctx); errors.Is(cause, errIdle) {
			err = errIdle
		}
		return nil, err
	}
	res.Body = &watchedBody{res.Body, ctx, r.idle, idle, stop}
	return res, nil
}

// watchedBody is the body of an answer that may not stop to arrive.
type watchedBody struct {
	io.ReadCloser
	ctx     context.Context
	timeout time.Duration
	idle    *time.Timer
	stop    func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.idle.Reset(b.timeout)
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
		err = &connectionError{err}
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}
