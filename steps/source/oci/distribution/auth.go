package distribution

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/rungci/rung/steps/source/archive/download"
)

// Credentials finds what a user has for a registry.
type Credentials interface {
	// Registry returns the name and password for a repository; ok is false when there are none. The name "<token>" says that the
	// password is an identity token, as it is in Docker's configuration.
	Registry(ctx context.Context, registry, repository string) (user, password string, ok bool, err error)
}

// identityToken is the name that stands for an identity token.
const identityToken = "<token>"

// client speaks to one repository, and logs in when the registry asks for it. It is our own because that of oras-go
// refuses to log in at a private address, which is where registries of companies have their token servers.
type client struct {
	http  *http.Client
	login func(ctx context.Context) (user, password string, err error)
	host  string // of the registry; nobody else gets credentials

	mu     sync.Mutex
	header map[bool]string // Authorization, of requests that read (false) and that write (true)
}

// maxToken bounds the answer of a token server, in bytes.
const maxToken = 1 << 20

// Do sends a request, and sends it again with what the registry asks for.
func (c *client) Do(req *http.Request) (*http.Response, error) {
	writes := req.Method != http.MethodGet && req.Method != http.MethodHead
	first := req.Clone(req.Context())
	if header := c.known(writes); header != "" && req.URL.Host == c.host {
		first.Header.Set("Authorization", header)
	}
	resp, err := c.http.Do(first)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.URL.Host != c.host {
		return resp, err
	}
	header, err := c.answer(req.Context(), resp)
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if header == "" || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		c.remember(writes, header)
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxToken))
	_ = resp.Body.Close()
	second := req.Clone(req.Context())
	if req.GetBody != nil {
		if second.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	second.Header.Set("Authorization", header)
	resp, err = c.http.Do(second)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		c.remember(writes, header)
	}
	return resp, err
}

func (c *client) known(writes bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header[writes]
}

func (c *client) remember(writes bool, header string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.header == nil {
		c.header = map[bool]string{}
	}
	c.header[writes] = header
}

// answer returns the Authorization header that a registry's challenge asks for, "" when we have none.
func (c *client) answer(ctx context.Context, resp *http.Response) (string, error) {
	user, password, err := c.login(ctx)
	if err != nil {
		return "", err
	}
	for _, challenge := range resp.Header.Values("WWW-Authenticate") {
		scheme, params := parseChallenge(challenge)
		switch {
		case scheme == "basic" && (user != "" || password != "") && user != identityToken:
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), nil
		case scheme == "bearer":
			token, err := c.token(ctx, resp.Request.URL, params, user, password)
			if err != nil {
				return "", err
			}
			return "Bearer " + token, nil
		}
	}
	return "", nil
}

// token asks a token server, for an anonymous token when there is no password.
func (c *client) token(ctx context.Context, registry *url.URL, params map[string]string, user, password string) (string, error) {
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" || realm.Scheme != "https" && realm.Scheme != "http" {
		return "", errors.New("the registry names no place to log in")
	}
	if realm.Scheme == "http" && registry.Scheme == "https" {
		return "", fmt.Errorf("the registry wants the password to be sent to %s without encryption", realm.Host)
	}
	realm.User = nil
	form := realm.Query()
	if params["service"] != "" {
		form.Set("service", params["service"])
	}
	for scope := range strings.FieldsSeq(params["scope"]) {
		form.Add("scope", scope)
	}
	var req *http.Request
	if user == identityToken {
		form.Set("grant_type", "refresh_token")
		form.Set("client_id", "step-runner")
		form.Set("refresh_token", password)
		form["scope"] = []string{params["scope"]}
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	} else {
		realm.RawQuery = form.Encode()
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
		if err == nil && (user != "" || password != "") {
			req.SetBasicAuth(user, password)
		}
	}
	if err != nil {
		return "", errors.New("the registry names no place to log in")
	}
	sender := *c.http
	if follow := sender.CheckRedirect; req.Method == http.MethodPost {
		sender.CheckRedirect = func(next *http.Request, via []*http.Request) error {
			if !download.SameOrigin(via[0].URL, next.URL) { // the token is in the body, which is sent again
				return download.ErrRedirect
			}
			return follow(next, via)
		}
	}
	resp, err := sender.Do(req)
	if err != nil {
		return "", fmt.Errorf("logging in at %s: %w", realm.Host, download.Plain(err))
	}
	defer resp.Body.Close()
	if status := download.Status(resp); status != nil {
		return "", fmt.Errorf("logging in at %s: %w", realm.Host, status)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxToken)).Decode(&answer); err != nil || answer.Token+answer.AccessToken == "" {
		return "", fmt.Errorf("logging in at %s: the answer holds no token", realm.Host)
	}
	if answer.Token == "" {
		return answer.AccessToken, nil
	}
	return answer.Token, nil
}

// parseChallenge reads a WWW-Authenticate header: a scheme, and parameters name=value or name="value".
func parseChallenge(text string) (scheme string, params map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	params = map[string]string{}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return strings.ToLower(scheme), params
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(after, `"`); isQuoted {
			var b strings.Builder
			i := 0
			for ; i < len(quoted) && quoted[i] != '"'; i++ {
				if quoted[i] == '\\' && i+1 < len(quoted) {
					i++
				}
				b.WriteByte(quoted[i])
			}
			value, rest = b.String(), quoted[min(i+1, len(quoted)):]
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		params[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
}
