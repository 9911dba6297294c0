package federation

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/source"
)

// Times after which a server that does nothing is given up. There is none for a whole download, which may be large.
const (
	dialTimeout      = 15 * time.Second
	handshakeTimeout = 15 * time.Second
	headerTimeout    = time.Minute
	idleTimeout      = 90 * time.Second
	maxIdlePerHost   = 8
	maxRedirects     = 10
)

// maxSecretFile bounds a file with a password or a token, in bytes.
const maxSecretFile = 64 << 10

// tokenUser is the user that GitLab, and others after it, take a token as the password of.
const tokenUser = "oauth2"

// access fills in how to get into a place: what the user's file says for it.
func (c *Config) access(to place, a *source.Access) error {
	if e := c.userEntry(to, credentialKeys...); e != nil {
		password, err := c.secret(e)
		if err != nil {
			return err
		}
		a.Username, a.Password = e.username, password
		if a.Username == "" && e.has("token_env", "token_file") {
			a.Username = tokenUser
		}
	}
	if e := c.userEntry(to, "ssh_key"); e != nil {
		a.SSHKey = e.file.absolute(e.sshKey, c.opts.Home)
	}
	if e := c.userEntry(to, "known_hosts"); e != nil {
		a.KnownHosts = []string{e.file.absolute(e.knownHosts, c.opts.Home)}
	}
	if e := c.userEntry(to, "plain_http"); e != nil && e.plainHTTP {
		a.PlainHTTP = true
	}
	client, err := c.client(to)
	a.HTTP = client
	return err
}

// secret reads an entry's password or token.
func (c *Config) secret(e *entry) (string, error) {
	for _, key := range []string{"password_env", "token_env"} {
		if !e.has(key) {
			continue
		}
		name := *e.field(key).(*string)
		for _, v := range c.opts.Env {
			if value, ok := strings.CutPrefix(v, name+"="); ok && value != "" {
				return value, nil
			}
		}
		return "", diag.List{e.wrong(key, "set it, or remove the entry", "the environment variable %s, which holds the password for %s, is not set", name, e.pattern)}
	}
	for _, key := range []string{"password_file", "token_file"} {
		if e.has(key) {
			return c.secretFile(e, key)
		}
	}
	return "", nil
}

func (c *Config) secretFile(e *entry, key string) (string, error) {
	text, err := c.readFile(e, key, *e.field(key).(*string), maxSecretFile)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\r\n\x00") {
		return "", diag.List{e.wrong(key, "write the password into it, on one line", "the file has to hold one line, and it does not")}
	}
	return secret, nil
}

// readFile reads a file that an entry names.
func (c *Config) readFile(e *entry, key, path string, limit int64) ([]byte, error) {
	path = e.file.absolute(path, c.opts.Home)
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, limit+1)); err == nil && int64(len(text)) <= limit {
			return text, nil
		}
		if err == nil {
			err = fmt.Errorf("%s is larger than %d KiB", path, limit>>10)
		}
	}
	return nil, diag.List{e.wrong(key, "", "reading what %s names: %v", key, err)}
}

// connection is what one HTTP client is for: the settings in which they differ.
type connection struct{ ca, cert, proxy *entry }

// client returns the HTTP client for a place. Places with the same settings share one, and so its connections.
func (c *Config) client(to place) (*http.Client, error) {
	key := connection{c.userEntry(to, "ca_file"), c.userEntry(to, certKeys...), c.userEntry(to, "proxy")}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.clients[key]; have != nil {
		return have, nil
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   handshakeTimeout,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   maxIdlePerHost,
		ForceAttemptHTTP2:     true,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if err := c.configure(transport, key); err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &gate{transport, c, "step-runner/" + c.opts.Version}, CheckRedirect: checkRedirect}
	c.clients[key] = client
	return client, nil
}

func (c *Config) configure(t *http.Transport, key connection) error {
	if e := key.ca; e != nil {
		text, err := c.readFile(e, "ca_file", e.caFile, MaxFileSize)
		if err != nil {
			return err
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(text) {
			return diag.List{e.wrong("ca_file", "it holds certificates, each between -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----", "there is no certificate in the file")}
		}
		t.TLSClientConfig.RootCAs = pool
	}
	if e := key.cert; e != nil {
		cert, err := c.readFile(e, "client_cert", e.clientCert, MaxFileSize)
		if err != nil {
			return err
		}
		private, err := c.readFile(e, "client_key", e.clientKey, MaxFileSize)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(cert, private)
		if err != nil {
			return diag.List{e.wrong("client_cert", "", "the client certificate and its key cannot be used: %v", err)}
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	switch e := key.proxy; {
	case e == nil:
	case e.proxy == proxyNone:
		t.Proxy = nil
	default:
		proxy, err := url.Parse(e.proxy)
		if err != nil {
			return diag.List{e.wrong("proxy", "", "the proxy is not a URL")}
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	return nil
}

// gate is a transport that says who asks, and goes to no place that is denied, also when a server or a repository sends it there.
type gate struct {
	http.RoundTripper
	config *Config
	agent  string
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.config.mayAsk(r.URL); err != nil {
		return nil, err
	}
	if r.Header.Get("User-Agent") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", g.agent)
	}
	return g.RoundTripper.RoundTrip(r)
}

// mayAsk refuses requests to a place that is denied by its name. Where every host is denied but some, those may send to others:
// the hosts of their files and logins are often not theirs.
func (c *Config) mayAsk(u *url.URL) error {
	denies := func(e *entry) bool { return e.deny && e.pattern.host != "" }
	if !slices.ContainsFunc(c.files, func(f *file) bool { return slices.ContainsFunc(f.entries, denies) }) {
		return nil
	}
	where := u.Scheme + "://" + u.Host + u.EscapedPath()
	p, err := parsePlace(where)
	if err != nil {
		return &source.DeniedError{What: where, Why: err.Error()}
	}
	for _, f := range c.files {
		if e := f.entry(p, "deny"); e != nil && denies(e) {
			return denied(where, e)
		}
	}
	return nil
}

// checkRedirect follows a server's word a few times, and never from TLS to plain text.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("the server redirected more than %d times", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return errors.New("the server redirected from https:// to " + r.URL.Scheme + "://, which is not followed")
	}
	return nil
}
