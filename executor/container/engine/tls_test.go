package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePEM writes a block of PEM into a file of dir.
func writePEM(t *testing.T, dir, name, kind string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certify writes ca.pem, cert.pem and key.pem into a folder: a certificate that is its own authority, for servers and clients.
func certify(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "engine"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, dir, "ca.pem", "CERTIFICATE", certificate)
	writePEM(t, dir, "cert.pem", "CERTIFICATE", certificate)
	writePEM(t, dir, "key.pem", "PRIVATE KEY", keyBytes)
	return dir
}

func TestTLS(t *testing.T) {
	own, foreign := certify(t), certify(t)
	config, err := loadTLS(own)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if strings.HasSuffix(r.URL.Path, "/attach") {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte(switching + frame(1, "hello")))
				conn.Close()
			}
		}
	}))
	server.TLS = &tls.Config{Certificates: config.Certificates, ClientCAs: config.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	host := "tcp://" + server.Listener.Addr().String()

	t.Run("with certificates that fit calls and streams work", func(t *testing.T) {
		c, err := New(host, own)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := c.Containers.Attach(t.Context(), "abc", false)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var out strings.Builder
		if err := errors.Join(c.Ping(t.Context()), Demultiplex(&out, &out, s)); err != nil || out.String() != "hello" {
			t.Errorf("%q %v", out.String(), err)
		}
	})
	onlyTrust := t.TempDir()
	text, err := os.ReadFile(filepath.Join(own, "ca.pem"))
	if err := errors.Join(err, os.WriteFile(filepath.Join(onlyTrust, "ca.pem"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"an engine that is not trusted":                  {host, foreign},
		"an engine that wants to know who asks":          {host, onlyTrust},
		"an engine that the system's authorities do not": {strings.Replace(host, "tcp:", "https:", 1), ""},
		"an engine that speaks TLS, without":             {host, ""},
	} {
		t.Run(name+" is an error", func(t *testing.T) {
			client, err := New(c[0], c[1])
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.Ping(t.Context()); err == nil {
				t.Error("it answers")
			}
		})
	}
}

func TestCertificatesThatCannotBeUsedAreErrors(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"an empty folder":                      func(dir string) error { return removeAll(dir, "ca.pem", "cert.pem", "key.pem") },
		"a certificate without its key":        func(dir string) error { return removeAll(dir, "key.pem") },
		"authorities that hold no certificate": func(dir string) error { return os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600) },
		"a certificate that is something else": func(dir string) error { return os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("x"), 0o600) },
		"a folder in the place of whom it may trust": func(dir string) error {
			return errors.Join(removeAll(dir, "ca.pem"), os.Mkdir(filepath.Join(dir, "ca.pem"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := certify(t)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := New("tcp://127.0.0.1:2376", dir); err == nil {
				t.Error("it is accepted")
			}
		})
	}
	if _, err := New("tcp://127.0.0.1:2376", filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a folder that is not there is accepted")
	}
	if _, err := New("unix:///run/docker.sock", "/nowhere"); errors.Is(err, fs.ErrNotExist) {
		t.Error("a socket needs no certificates, and they are read")
	}
}

func removeAll(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
