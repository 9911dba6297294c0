// Package terminal serves the web terminals of jobs. A person opens one on the page of a job; GitLab connects to the manager, and passes
// on what they type and see.
//
//	browser ──> GitLab ──websocket, over TLS──> Server ──> Session of one job ──> executor.Environment.Shell
//
// GitLab is told of a session with the request for the job: where it is, the certificate to expect there, and a secret that opens it. What
// passes is not masked, as in gitlab-runner: who may open a terminal may run any command as the job. GitLab is told once: a process that adopts the job
// goes on with its session, at the same address, with the same certificate and secret (Kept).
//
// Source: session/server.go and session/session.go in gitlab-runner; workhorse/doc/channel.md and workhorse/internal/channel in GitLab.
package terminal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/rungci/rung/manager/gitlab"
)

const (
	// validity is that of a certificate, which is made when a Server begins to listen at an address that it had not before.
	validity = 10 * 365 * 24 * time.Hour
	// headerTimeout and maxHeader bound what a client sends before it has shown its authorization.
	headerTimeout = 10 * time.Second
	maxHeader     = 16 << 10
	// idleTimeout is how long a connection may stay that asks for nothing, and maxConnections bounds them all: jobs can reach the port, too.
	// Further ones wait.
	idleTimeout    = 10 * time.Second
	maxConnections = 1024
)

// Options are those of a Server.
type Options struct {
	// Listen is the address that it listens at, and Advertise the one that GitLab reaches it by, both as HOST:PORT. Advertise may begin with
	// https://, and is Listen if empty. Port 0 of Advertise stands for the port of Listen.
	Listen, Advertise string
	// Known are identities of earlier servers by their addresses. A server at the same address has the same, so that what GitLab was told stays true.
	Known map[string]Identity
	Log   *slog.Logger
}

// Server serves the terminals of a manager. Its methods are safe for concurrent use, and those of nil do nothing.
type Server struct {
	log      *slog.Logger
	identity Identity
	http     *http.Server
	listener net.Listener

	mu       sync.Mutex
	sessions map[string]*Session
}

// Listen begins to serve.
func Listen(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{log: o.Log, listener: listener, sessions: map[string]*Session{}}
	host, port, err := advertised(o, listener.Addr())
	var pair tls.Certificate
	if err == nil {
		s.identity, pair, err = identify("https://"+net.JoinHostPort(host, port), host, o.Known)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/session/{id}/exec", s.serve)
	mux.HandleFunc("/session/{id}/proxy/", s.proxy)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, // a websocket is an upgrade of HTTP/1.1
	}
	go func() { _ = s.http.ServeTLS(netutil.LimitListener(listener, maxConnections), "", "") }()
	return s, nil
}

// advertised is where GitLab reaches the server.
func advertised(o Options, at net.Addr) (host, port string, err error) {
	address, key := o.Advertise, "advertise_address"
	if address == "" {
		address, key = o.Listen, "listen_address"
	}
	address = strings.TrimSuffix(strings.TrimPrefix(address, "https://"), "/")
	if host, port, err = net.SplitHostPort(address); err != nil {
		return "", "", fmt.Errorf("%s is %q, and has to be HOST:PORT: %w", key, address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", "", fmt.Errorf("GitLab cannot reach %q: set advertise_address to the HOST:PORT by which GitLab reaches this machine", address)
	}
	if port == "0" {
		_, port, err = net.SplitHostPort(at.String())
	}
	return host, port, err
}

// selfSigned makes a certificate for a host.
func selfSigned(host string) (certificate []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Rung"}, CommonName: host}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, // clients trust it as its own issuer
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return certificate, key, err
}

// Address is where GitLab reaches the server, as https://HOST:PORT.
func (s *Server) Address() string { return s.identity.Address }

// Begin makes a session for a job that is asked for. With limit, a terminal keeps the ended job for that long.
func (s *Server) Begin(limit time.Duration) *Session {
	if s == nil {
		return nil
	}
	return s.add(rand.Text(), rand.Text()+rand.Text(), limit)
}

func (s *Server) add(id, authorization string, limit time.Duration) *Session {
	session := &Session{server: s, id: id, authorization: authorization, limit: limit, log: s.log, ready: make(chan struct{}), ended: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = session
	return session
}

// Info is what GitLab is told of a session.
func (s *Session) Info() *gitlab.Session {
	if s == nil {
		return nil
	}
	return &gitlab.Session{URL: s.server.identity.Address + "/session/" + s.id, Certificate: string(s.server.identity.Certificate), Authorization: s.authorization}
}

// Close ends all terminals.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	sessions := s.sessions
	s.sessions = map[string]*Session{}
	s.mu.Unlock()
	for _, session := range sessions {
		session.end()
	}
	_ = s.http.Close()
	_ = s.listener.Close() // which http does not know before it serves
}

// authorized finds the session of a request. It answers by itself, and returns nil, if the request opens none.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request) *Session {
	s.mu.Lock()
	session := s.sessions[r.PathValue("id")]
	s.mu.Unlock()
	if session == nil {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(session.authorization)) != 1 {
		http.Error(w, "the authorization is not that of the session", http.StatusUnauthorized)
		return nil
	}
	return session
}

// serve answers a request for the terminal of a job.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	session := s.authorized(w, r)
	switch {
	case session == nil:
	case r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		http.Error(w, "a terminal is a websocket", http.StatusMethodNotAllowed)
	default:
		session.serve(w, r)
	}
}

// proxy refuses what GitLab's web IDE asks for.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request) {
	if s.authorized(w, r) != nil {
		http.Error(w, "this runner does not pass connections on to the services of jobs", http.StatusNotFound)
	}
}
