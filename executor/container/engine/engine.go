// Package engine is a client for Docker's Engine API, which Podman also implements: the calls that a job needs, and those fields of the
// responses that are used. It builds on net/http alone, because it is part of a program that is copied into every environment.
//
// The contract is https://docs.docker.com/reference/api/engine/. The API version is negotiated with the engine before the first call. A
// refusal of the engine is an *Error, with its status and message; Unreachable reports that no engine answers.
package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// dialTime is how long an engine may take to accept a connection.
	dialTime = 30 * time.Second
	// idleTime is how long a connection is kept that nobody uses.
	idleTime = 30 * time.Second
	// idleConns is how many of them are kept.
	idleConns = 8
	// localHost stands for the engine in requests that need no name, because they go to a socket.
	localHost = "engine.localhost"
)

// Dialer connects to an address of a network, "unix" or "tcp".
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Client talks to one engine. Its methods, and those of its parts, are safe for concurrent use.
type Client struct {
	Images     Images
	Containers Containers
	Networks   Networks
	Volumes    Volumes

	address address
	connect Dialer
	tls     *tls.Config // nil is none
	http    *http.Client

	agreeing sync.Mutex
	version  string // "/v1.41"; "" is not agreed on yet
}

// New makes a client of the engine at host, without a word to it: unix:///run/docker.sock, or tcp://name:2376. In certificates, a
// folder, ca.pem is whom to trust (the system's authorities where it is missing), and cert.pem with key.pem is who asks; "" is no
// TLS, but for https://. An engine is never reached through a proxy.
func New(host, certificates string) (*Client, error) {
	return NewThrough(new(net.Dialer).DialContext, host, certificates)
}

// NewThrough makes a client of an engine that is reached through a dialer: host is its address as seen from there.
func NewThrough(dialer Dialer, host, certificates string) (*Client, error) {
	a, err := parseHost(host)
	if err != nil {
		return nil, err
	}
	c := &Client{address: a, connect: dialer}
	c.Images, c.Containers, c.Networks, c.Volumes = Images{c}, Containers{c}, Networks{c}, Volumes{c}
	switch {
	case a.network == "unix":
	case certificates != "":
		if c.tls, err = loadTLS(certificates); err != nil {
			return nil, err
		}
	case a.secure:
		c.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		DialTLSContext:    func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		ForceAttemptHTTP2: false, DisableCompression: true, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime,
	}
	c.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // an engine sends nobody elsewhere
	}
	return c, nil
}

// Close closes the connections that are idle. Streams are closed by those who have them.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// loadTLS reads certificates as Docker's own tools name them.
func loadTLS(folder string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	file := func(name string) string { return filepath.Join(folder, name) }
	authorities, err := os.ReadFile(file("ca.pem"))
	switch {
	case err == nil:
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s holds no certificate", file("ca.pem"))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("reading whom to trust as an engine: %w", err)
	}
	own, err := tls.LoadX509KeyPair(file("cert.pem"), file("key.pem"))
	switch {
	case err == nil:
		config.Certificates = []tls.Certificate{own}
	case !errors.Is(err, fs.ErrNotExist) || isThere(file("cert.pem")):
		return nil, fmt.Errorf("reading the certificate for the engine: %w", err)
	}
	if config.RootCAs == nil && config.Certificates == nil {
		return nil, fmt.Errorf("the folder of the engine's certificates, %s, has neither ca.pem nor cert.pem and key.pem", folder)
	}
	return config, nil
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// dial connects to the engine, with TLS where it is asked for.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	conn, err := c.connect(dialing, c.address.network, c.address.place)
	cancel()
	if err != nil || c.tls == nil {
		return conn, err
	}
	config := c.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(c.address.place)
	secured := tls.Client(conn, config)
	ctx, cancel = context.WithTimeout(ctx, dialTime)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("agreeing with the engine on encryption: %w", err)
	}
	return secured, nil
}

// Unreachable reports whether an error says that nobody listens where the engine should.
func Unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
