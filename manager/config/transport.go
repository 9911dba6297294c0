package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/rungci/rung/internal/silence"
)

// Transport carries requests to the entry's GitLab: through the proxy of the environment, and with the certificates of the entry, else those in
// certs/ beside the configuration (HOST.crt, HOST.auth.crt and HOST.auth.key), as gitlab-runner has them.
func (c *Config) Transport(r *Runner) (*http.Transport, error) {
	authority, certificate, key := r.TLSCAFile, r.TLSCertFile, r.TLSKeyFile
	if u, err := url.Parse(r.URL); err == nil && u.Hostname() != "" {
		beside := filepath.Join(filepath.Dir(c.Path), "certs", u.Hostname())
		if authority == "" {
			authority = ifExists(beside + ".crt")
		}
		if certificate == "" && key == "" {
			certificate, key = ifExists(beside+".auth.crt"), ifExists(beside+".auth.key")
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("tls-ca-file: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls-ca-file: %s holds no certificate in PEM form", authority)
		}
	}
	if (certificate == "") != (key == "") {
		return nil, errors.New("tls-cert-file and tls-key-file belong together, and one of them is missing")
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("tls-cert-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config
	t.IdleConnTimeout = c.ConnectionMaxAge
	silence.Notice(t, deadAfter)
	return t, nil
}

// deadAfter is about how long nothing may come from the other end of a connection, not even that it has got what was sent, until the connection is given
// up. Without a bound, a firewall that has forgotten the connection, or an address that has moved, stops a runner for a quarter of an hour.
const deadAfter = time.Minute

// ifExists is path, or nothing if no file is there.
func ifExists(path string) string {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}
