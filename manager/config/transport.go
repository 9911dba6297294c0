package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
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

// Certificates are those of connections to a GitLab, in PEM; each may be empty.
type Certificates struct {
	CA               string // that GitLab's certificate may be signed by, beside those of the system
	Certificate, Key string // of the runner

	file string // of CA
	pair []tls.Certificate
}

// Certificates are read from the files of the entry, or else those in certs/ beside the configuration (HOST.crt, HOST.auth.crt and HOST.auth.key), as
// gitlab-runner has them.
func (c *Config) Certificates(r *Runner) (out Certificates, err error) {
	certificate, key := r.TLSCertFile, r.TLSKeyFile
	out.file = r.TLSCAFile
	if u, err := url.Parse(r.URL); err == nil && u.Hostname() != "" {
		beside := filepath.Join(filepath.Dir(c.Path), "certs", u.Hostname())
		if out.file == "" {
			out.file = ifExists(beside + ".crt")
		}
		if certificate == "" && key == "" {
			certificate, key = ifExists(beside+".auth.crt"), ifExists(beside+".auth.key")
		}
	}
	authorities, err := read(out.file)
	if err != nil {
		return out, fmt.Errorf("tls-ca-file: %w", err)
	}
	if out.CA, _ = parts(authorities); out.CA == "" && out.file != "" {
		return out, fmt.Errorf("tls-ca-file: %s holds no certificate in PEM form", out.file)
	}
	if (certificate == "") != (key == "") {
		return out, errors.New("tls-cert-file and tls-key-file belong together, and one of them is missing")
	}
	if certificate == "" {
		return out, nil
	}
	public, err := read(certificate)
	var private []byte
	if err == nil {
		private, err = read(key)
	}
	if err == nil {
		out.pair = make([]tls.Certificate, 1)
		out.pair[0], err = tls.X509KeyPair(public, private)
	}
	if err != nil {
		return out, fmt.Errorf("tls-cert-file: %w", err)
	}
	out.Certificate, _ = parts(public)
	_, out.Key = parts(private)
	return out, nil
}

// read reads a file; nothing where there is no path.
func read(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	return os.ReadFile(path)
}

// parts are the certificates in a text in PEM, and all else: one file may hold both, and a key must not be where certificates are.
func parts(text []byte) (certificates, others string) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return certificates, others
		}
		if encoded := string(pem.EncodeToMemory(block)); block.Type == "CERTIFICATE" {
			certificates += encoded
		} else {
			others += encoded
		}
	}
}

// Transport carries requests to the entry's GitLab: through the proxy of the environment, and with its Certificates.
func (c *Config) Transport(r *Runner) (*http.Transport, error) {
	with, err := c.Certificates(r)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: with.pair}
	if with.CA != "" {
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM([]byte(with.CA)) {
			return nil, fmt.Errorf("tls-ca-file: %s holds no certificate in PEM form", with.file)
		}
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
