package federation

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/source"
)

// quiet keeps a server from reporting the handshakes that a test makes fail.
func quiet(s *httptest.Server) { s.Config.ErrorLog = log.New(io.Discard, "", 0) }

// client applies a configuration to a URL and returns the client for it.
func client(t *testing.T, w *world, url string) *http.Client {
	t.Helper()
	at := git(url + "/g/p")
	if _, err := w.load(t).Apply(at); err != nil {
		t.Fatal(err)
	}
	return at.Access.HTTP
}

func get(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func certificatePEM(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}

func TestTheClientSaysWhoAsks(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.UserAgent()) }))
	t.Cleanup(s.Close)
	if got, err := get(t, client(t, newWorld(t, "", ""), s.URL), s.URL); err != nil || got != "step-runner/v1.2.3" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	key := keyPair(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	clientCert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(clientCert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	quiet(s)
	s.StartTLS()
	t.Cleanup(s.Close)

	host := strings.TrimPrefix(s.URL, "https://")
	world := func(lines string) *world {
		w := newWorld(t, "[[source]]\nmatch = \""+host+"\"\n"+lines, "")
		w.write(t, "config/rung/ca.pem", certificatePEM(s.Certificate()))
		w.write(t, "config/rung/cert.pem", certificatePEM(clientCert))
		w.write(t, "config/rung/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
		w.write(t, "config/rung/empty", "")
		return w
	}
	t.Run("ca_file, client_cert and client_key", func(t *testing.T) {
		t.Parallel()
		got, err := get(t, client(t, world("ca_file = \"ca.pem\"\nclient_cert = \"cert.pem\"\nclient_key = \"key.pem\"\n"), s.URL), s.URL)
		if err != nil || got != "hello client" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("a server that nobody vouches for", func(t *testing.T) {
		t.Parallel()
		if _, err := get(t, client(t, world(""), s.URL), s.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no client certificate", func(t *testing.T) {
		t.Parallel()
		if _, err := get(t, client(t, world("ca_file = \"ca.pem\"\n"), s.URL), s.URL); err == nil {
			t.Error("the server let us in")
		}
	})
	for name, lines := range map[string]string{
		"a CA file without certificates": "ca_file = \"empty\"\n",
		"a CA file that is not there":    "ca_file = \"none\"\n",
		"a key that is none":             "client_cert = \"cert.pem\"\nclient_key = \"empty\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := world(lines).load(t).Apply(git(s.URL + "/p")); diag.Of(err) == nil {
				t.Errorf("got %v, want an error at the line", err)
			}
		})
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	var auth string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Proxy-Authorization")
		fmt.Fprint(w, "by proxy to ", r.URL.Host)
	}))
	defer proxy.Close()
	at := strings.Replace(proxy.URL, "http://", "http://u:p@", 1)
	c := client(t, newWorld(t, "[[source]]\nmatch = \"a.example\"\nproxy = \""+at+"\"\n", ""), "http://a.example")
	if got, err := get(t, c, "http://a.example/x"); err != nil || got != "by proxy to a.example" || auth == "" {
		t.Errorf("got %q, %v, credentials %v", got, err, auth != "")
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		fmt.Fprint(w, "here")
	}))
	defer plain.Close()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) }))
	quiet(s)
	s.StartTLS()
	t.Cleanup(s.Close)
	w := newWorld(t, "[[source]]\nmatch = \"127.0.0.1\"\nrefresh = \"1m\"\n[[source]]\nmatch = \""+strings.TrimPrefix(s.URL, "https://")+"\"\nca_file = \"ca.pem\"\n", "")
	w.write(t, "config/rung/ca.pem", certificatePEM(s.Certificate()))
	if _, err := get(t, client(t, w, s.URL), s.URL); err == nil || !strings.Contains(err.Error(), "not followed") {
		t.Errorf("from https to http: %v", err)
	}
	if _, err := get(t, client(t, w, plain.URL), plain.URL+"/loop"); err == nil || !strings.Contains(err.Error(), "redirected more than") {
		t.Errorf("in circles: %v", err)
	}
}

func TestARedirectToAPlaceThatIsDenied(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old/p" {
			http.Redirect(w, r, "/New/%70", http.StatusFound)
			return
		}
		fmt.Fprint(w, "here")
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	t.Run("is not followed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "[[source]]\nmatch = \""+host+"/new/\"\ndeny = true\n", "")
		var denied *source.DeniedError
		if _, err := get(t, client(t, w, s.URL), s.URL+"/old/p"); !errors.As(err, &denied) {
			t.Errorf("got %v, want a DeniedError", err)
		}
	})
	t.Run("is followed where only what is not named is denied", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "[[source]]\nmatch = \"*\"\ndeny = true\n[[source]]\nmatch = \""+host+"/old\"\ndeny = false\n", "")
		if got, err := get(t, client(t, w, s.URL+"/old"), s.URL+"/old/p"); err != nil || got != "here" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestPlacesWithTheSameSettingsShareAClient(t *testing.T) {
	t.Parallel()
	c := newWorld(t, "[[source]]\nmatch = \"p.example\"\nproxy = \"none\"\n", "").load(t)
	of := func(at *source.Location) *http.Client {
		if _, err := c.Apply(at); err != nil {
			t.Fatal(err)
		}
		return at.Access.HTTP
	}
	if of(git("https://a.example/p")) != of(oci("b.example/p")) {
		t.Error("two hosts without settings have clients of their own")
	}
	if of(git("https://a.example/p")) == of(git("https://p.example/p")) {
		t.Error("the host without a proxy has the client of the others")
	}
}
