package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
)

// serveTCP serves the world's service on a loopback address, too.
func (w *world) serveTCP(access service.Access) (address string) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	server := service.NewServer(w.service, access)
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { server.Stop(cancelled()) })
	return listener.Addr().String()
}

func (w *world) dial(address string, opts ...client.Option) *client.Client {
	w.t.Helper()
	c, err := client.Dial(address, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Disconnect() })
	return c
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := serve(t)
	const secret = "0123456789abcdef0123456789abcdef"
	token, err := service.NewToken(secret + "\n")
	if err != nil {
		t.Fatal(err)
	}
	address := w.serveTCP(service.Access{Token: token})
	t.Run("the right one opens every call", func(t *testing.T) {
		if _, err := w.dial(address, client.WithToken(secret)).Execute(soon(t), w.request("1", script("true")), io.Discard); err != nil {
			t.Error(err)
		}
	})
	t.Run("none, or another, opens none", func(t *testing.T) {
		for _, opts := range [][]client.Option{nil, {client.WithToken(secret + "0")}, {client.WithToken(strings.ToUpper(secret))}} {
			c := w.dial(address, opts...)
			if _, err := c.List(soon(t)); !errors.Is(err, client.ErrUnauthenticated) {
				t.Errorf("a call: %v", err)
			}
			if _, err := c.FollowLogs(soon(t), "1", io.Discard, client.LogOptions{}); !errors.Is(err, client.ErrUnauthenticated) {
				t.Errorf("a stream: %v", err)
			}
		}
	})
	t.Run("health needs none", func(t *testing.T) {
		conn := w.dial(address).Conn()
		if out, err := healthv1.NewHealthClient(conn).Check(soon(t), &healthv1.HealthCheckRequest{}); err != nil || out.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health: %v, %v", out, err)
		}
	})
	t.Run("a short one is refused", func(t *testing.T) {
		for _, text := range []string{"", "short", "two words of more than 16"} {
			if _, err := service.NewToken(text); err == nil {
				t.Errorf("%q is accepted", text)
			}
		}
	})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	w := serve(t)
	authority := newAuthority(t)
	address := w.serveTCP(service.Access{TLS: credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{authority.issue(t, "server")}, ClientCAs: authority.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})})
	good := &tls.Config{RootCAs: authority.pool, Certificates: []tls.Certificate{authority.issue(t, "client")}}
	if _, err := w.dial(address, client.WithTLS(good)).Execute(soon(t), w.request("1", script("true")), io.Discard); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	for name, config := range map[string]*tls.Config{
		"without one":         {RootCAs: authority.pool},
		"another authority's": {RootCAs: authority.pool, Certificates: []tls.Certificate{newAuthority(t).issue(t, "client")}},
		"an unknown server":   {Certificates: good.Certificates},
	} {
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := w.dial(address, client.WithTLS(config)).List(short); err == nil {
			t.Errorf("%s, the call succeeds", name)
		}
		cancel()
	}
}

func TestSockets(t *testing.T) {
	t.Parallel()
	t.Run("only their user may connect", func(t *testing.T) {
		w := serve(t)
		info, err := os.Stat(w.socket)
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("the socket has the mode %s, %v", info.Mode(), err)
		}
		if entries, _ := os.ReadDir(w.dir); len(entries) != 1 {
			t.Errorf("beside the socket stand %v", entries)
		}
	})
	t.Run("one that a killed server left is replaced, a live one is not", func(t *testing.T) {
		w := serve(t)
		if _, err := service.ListenUnix(w.socket); !errors.Is(err, service.ErrInUse) {
			t.Errorf("beside a live server: %v", err)
		}
		stale := filepath.Join(w.dir, "stale")
		leaveStale(t, stale)
		listener, err := service.ListenUnix(stale)
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		if exists(stale) {
			t.Error("the socket is left")
		}
		if _, err := service.ListenUnix(w.write("file", "precious")); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("in the place of a file: %v", err)
		}
	})
	t.Run("of many servers that start at once one gets a stale one's name", func(t *testing.T) {
		dir := t.TempDir()
		for round := range 20 {
			stale := filepath.Join(dir, fmt.Sprint(round))
			leaveStale(t, stale)
			var all sync.WaitGroup
			winners := make(chan net.Listener, 8)
			for range cap(winners) {
				all.Go(func() {
					listener, err := service.ListenUnix(stale)
					if err == nil {
						winners <- listener
					} else if !errors.Is(err, service.ErrInUse) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if len(winners) != 1 {
				t.Fatalf("%d servers listen at %s", len(winners), stale)
			}
			listener := <-winners
			conn, err := net.Dial("unix", stale)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			listener.Close()
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
	t.Run("a path that is too long is told", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := service.ListenUnix(filepath.Join(dir, "s")); err == nil || !strings.Contains(err.Error(), "bytes too long") {
			t.Errorf("got %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
	t.Run("one that was replaced is not removed by its first server", func(t *testing.T) {
		w := serve(t)
		other := filepath.Join(w.dir, "other")
		first, err := service.ListenUnix(other)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		second, err := service.ListenUnix(other)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		first.Close()
		if !exists(other) {
			t.Error("it is gone")
		}
	})
}

func TestAnyConnectionWillDo(t *testing.T) {
	t.Parallel()
	w := serve(t)
	dials := 0
	c := w.dial("anywhere", client.WithDialer(func(ctx context.Context) (net.Conn, error) {
		dials++
		conn, err := new(net.Dialer).DialContext(ctx, "unix", w.socket)
		if err != nil {
			return nil, err
		}
		return client.Stdio(conn, conn), nil
	}))
	var log strings.Builder
	if _, err := c.Execute(soon(t), w.request("1", script("echo through a pipe")), &log); err != nil || log.String() != "through a pipe\n" || dials != 1 {
		t.Errorf("got %q after %d dials, %v", log.String(), dials, err)
	}
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{certificate: certificate, key: key, pool: x509.NewCertPool()}
	a.pool.AddCert(certificate)
	return a
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// leaveStale leaves a socket as a server that was killed does.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	for { // a process that another test is starting has the descriptor until it runs its program
		conn, err := net.Dial("unix", path)
		if err != nil {
			return
		}
		conn.Close()
	}
}
