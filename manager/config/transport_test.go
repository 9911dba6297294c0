package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/manager/config"
)

// certified writes a certificate, which signs itself, and its key, and returns their files.
func certified(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "made.crt"), filepath.Join(dir, "made.key")
	write(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})))
	return certificate, key
}

func TestCertificatesAreThoseOfTheEntryOrOfTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := certified(t, dir)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	text, err := os.ReadFile(certificate)
	if err != nil || !clients.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.StartTLS()
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	beside := filepath.Join(dir, "beside", "certs")
	if err := os.MkdirAll(beside, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{".crt": certificate, ".auth.crt": certificate, ".auth.key": key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(beside, address.Hostname()+name), string(text))
	}
	for name, test := range map[string]struct {
		path  string
		entry config.Runner
		want  string // of the error; empty: none
	}{
		"of the entry":       {filepath.Join(dir, "config.toml"), config.Runner{TLSCAFile: certificate, TLSCertFile: certificate, TLSKeyFile: key}, ""},
		"of the host":        {filepath.Join(dir, "beside", "config.toml"), config.Runner{}, ""},
		"none":               {filepath.Join(dir, "config.toml"), config.Runner{}, "certificate"},
		"no own certificate": {filepath.Join(dir, "config.toml"), config.Runner{TLSCAFile: certificate}, "certificate required"},
		"a missing file":     {filepath.Join(dir, "config.toml"), config.Runner{TLSCAFile: filepath.Join(dir, "none")}, "tls-ca-file"},
		"a file without one": {filepath.Join(dir, "config.toml"), config.Runner{TLSCAFile: key}, "holds no certificate"},
		"half a pair":        {filepath.Join(dir, "config.toml"), config.Runner{TLSKeyFile: key}, "belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.entry.URL = server.URL
			c := &config.Config{Path: test.path}
			transport, err := c.Transport(&test.entry)
			if err == nil {
				var resp *http.Response
				if resp, err = (&http.Client{Transport: transport}).Get(server.URL); err == nil {
					_ = resp.Body.Close()
				}
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
