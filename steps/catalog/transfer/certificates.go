package transfer

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// Certificates are files in PEM for connections to a server, as inputs of a step. Each may be empty.
type Certificates struct {
	CAFile   string `json:"ca_file"` // certificates that the server's may be signed by, beside those of the system
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
}

// Config is what TLS makes of them; nil if there are none.
func (c Certificates) Config() (*tls.Config, error) {
	if c == (Certificates{}) {
		return nil, nil //nolint:nilnil // the zero value of http.Transport
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		if out.RootCAs, err = x509.SystemCertPool(); err != nil { // as in an image without any
			out.RootCAs = x509.NewCertPool()
		}
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_file: %s has no certificates in PEM", c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file, key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Transport is what Client needs for them; nil if there are none.
func (c Certificates) Transport() (http.RoundTripper, error) {
	config, err := c.Config()
	if config == nil || err != nil {
		return nil, err
	}
	t := transport()
	t.TLSClientConfig = config
	return t, nil
}
