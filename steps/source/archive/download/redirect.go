package download

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// MaxRedirects bounds how often one request is sent elsewhere.
const MaxRedirects = 10

// Client returns a copy of a client (nil is the standard one) that follows redirects safely: never from https to http, and
// without credentials as soon as they lead to another host or port.
func Client(client *http.Client) *http.Client {
	var safe http.Client
	if client != nil {
		safe = *client
	}
	configured := safe.CheckRedirect
	safe.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= MaxRedirects {
			return fmt.Errorf("%w: there were %d already", ErrRedirect, MaxRedirects)
		}
		last := via[len(via)-1].URL
		switch {
		case req.URL.Scheme != "https" && req.URL.Scheme != "http":
			return fmt.Errorf("%w: to the scheme %q", ErrRedirect, req.URL.Scheme)
		case last.Scheme == "https" && req.URL.Scheme == "http":
			return fmt.Errorf("%w: from https to http, at %s", ErrRedirect, req.URL.Host)
		}
		// The standard library keeps credentials for another port, and for subdomains; and it makes every request's headers from
		// those of the first one.
		for _, earlier := range append(via[1:len(via):len(via)], req) {
			if !SameOrigin(via[0].URL, earlier.URL) {
				req.Header.Del("Authorization")
				req.Header.Del("Cookie")
				req.Header.Del("Referer") // its query may hold a token
				break
			}
		}
		req.URL.User = nil // a server does not choose what we log in with
		if configured != nil {
			return configured(req, via)
		}
		return nil
	}
	return &safe
}

// SameOrigin reports whether two addresses have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
