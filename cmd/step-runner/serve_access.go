package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
)

// serveFlags say where a server listens, and whom it lets in.
type serveFlags struct {
	service     serviceFlags
	socket      string
	listen      string
	tlsCert     string
	tlsKey      string
	tlsClientCA string
	tokenFile   string
	noAuth      bool
}

func (o *serveFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&o.socket, "socket", "", "listen on the unix socket `PATH`")
	f.StringVar(&o.listen, "listen", "", "listen on the TCP address `HOST:PORT`; port 0 takes a free one")
	f.StringVar(&o.tlsCert, "tls-cert", "", "the server's certificate, and those between it and its authority, are in the PEM `FILE`")
	f.StringVar(&o.tlsKey, "tls-key", "", "the key of that certificate is in the PEM `FILE`")
	f.StringVar(&o.tlsClientCA, "tls-client-ca", "", "let in clients whose certificates are of an authority in the PEM `FILE`")
	f.StringVar(&o.tokenFile, "token-file", "", "let in clients that show the token in `FILE`")
	f.BoolVar(&o.noAuth, "no-auth", false, "let in everybody; only on a loopback address, to every user of this machine")
	o.service.flags(f)
}

// endpoint is one way to a service.
type endpoint struct {
	name     string // "socket PATH" or "HOST:PORT"
	listener net.Listener
	access   service.Access
	server   *service.Server // when it was started
}

// start serves until the server is stopped. What goes wrong goes to failed.
func (e *endpoint) start(svc *service.Service, failed chan<- error) {
	e.server = service.NewServer(svc, e.access)
	go func() {
		if err := e.server.Serve(e.listener); err != nil {
			failed <- fmt.Errorf("serving on %s: %w", e.name, err)
		}
	}()
}

func closeAll(endpoints []*endpoint) {
	for _, e := range endpoints {
		_ = e.listener.Close()
	}
}

// open listens everywhere that the flags say.
func (o *serveFlags) open(a *app) (endpoints []*endpoint, err error) {
	defer func() {
		if err != nil {
			closeAll(endpoints)
		}
	}()
	if o.listen == "" && (o.tlsCert != "" || o.tlsKey != "" || o.tlsClientCA != "" || o.tokenFile != "" || o.noAuth) {
		return nil, usage("TLS, tokens and --no-auth are for TCP, and there is no --listen").
			hinted("only your own user can connect to a unix socket")
	}
	if o.listen != "" {
		access, err := o.access(a)
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", o.listen)
		if err != nil {
			return nil, listenError(err)
		}
		endpoints = append(endpoints, &endpoint{name: listener.Addr().String(), listener: listener, access: access})
	}
	if o.socket != "" {
		listener, err := service.ListenUnix(o.socket)
		if err != nil {
			return endpoints, listenError(err)
		}
		endpoints = append(endpoints, &endpoint{name: "socket " + o.socket, listener: listener})
	}
	return endpoints, nil
}

// access makes what TCP clients need, and refuses what would let in more than their user means to.
func (o *serveFlags) access(a *app) (service.Access, error) {
	var access service.Access
	local, err := loopback(o.listen)
	secure := o.tlsCert != "" || o.tlsKey != ""
	switch {
	case err != nil:
		return access, err
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return access, usage("TLS takes both --tls-cert and --tls-key")
	case o.tlsClientCA != "" && !secure:
		return access, usage("--tls-client-ca is of no use without --tls-cert and --tls-key")
	case !secure && !local:
		return access, usage("%s is not a loopback address, and what clients send to it would cross the network in clear", o.listen).
			hinted("give the server a certificate with --tls-cert and --tls-key, or listen on 127.0.0.1")
	case o.noAuth && !local:
		return access, usage("--no-auth would let everybody in who can reach %s", o.listen).hinted("use --tls-client-ca or --token-file")
	case o.noAuth && (o.tokenFile != "" || o.tlsClientCA != ""):
		return access, usage("--no-auth lets in everybody, and --token-file and --tls-client-ca do not").hinted("keep one")
	case !o.noAuth && o.tokenFile == "" && o.tlsClientCA == "":
		return access, usage("nothing says whom to let in").
			hinted("use --token-file, or --tls-client-ca with TLS; on a loopback address, --no-auth lets in every user of this machine")
	}
	if o.tokenFile != "" {
		if access.Token, err = a.readToken(o.tokenFile); err != nil {
			return access, err
		}
	}
	if secure {
		access.TLS, err = o.credentials()
	}
	return access, err
}

// loopback reports whether nobody but this machine can reach an address.
func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, usage("--listen: %v", err).hinted("write HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// readToken reads a token, and says so when other users can, too.
func (a *app) readToken(path string) (*service.Token, error) {
	text, err := source.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, coded(exitDefinition, "--token-file: %v", err)
	}
	token, err := service.NewToken(string(text))
	if err != nil {
		return nil, coded(exitDefinition, "--token-file %s: %v", path, err)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(a.stderr, "warning: other users may read the token in %s; `chmod 600` keeps it yours\n", path)
	}
	return token, nil
}

// credentials makes those of TLS.
func (o *serveFlags) credentials() (credentials.TransportCredentials, error) {
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fileError("--tls-cert and --tls-key", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.tlsClientCA != "" {
		text, err := os.ReadFile(o.tlsClientCA)
		if err != nil {
			return nil, fileError("--tls-client-ca", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, coded(exitDefinition, "--tls-client-ca: %s holds no certificate", o.tlsClientCA)
		}
	}
	return credentials.NewTLS(config), nil
}

// fileError is the error of a file that a flag names.
func fileError(flag string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return coded(exitDefinition, "%s: %v", flag, err)
}
