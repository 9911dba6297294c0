package sshd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
)

// MaxConnections bounds how many connections a Server has at once; more wait.
const MaxConnections = 200

// maxAuthorized bounds the file of keys that are let in, in bytes.
const maxAuthorized = 1 << 20

// Server lets in whoever has a key that it knows, under any name.
type Server struct {
	host   host.Host
	config *ssh.ServerConfig
	key    ssh.PublicKey
}

// NewServer makes a server of a machine, with a key of its own that is only in memory. authorized is a file of public keys, as OpenSSH's
// authorized_keys without options, which is read for each connection.
func NewServer(on host.Host, authorized string) (*Server, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	s := &Server{host: on, key: signer.PublicKey(), config: &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, admit(authorized, key)
		},
	}}
	s.config.AddHostKey(signer)
	return s, nil
}

// Fingerprint is that of the server's key: "SHA256:…".
func (s *Server) Fingerprint() string { return ssh.FingerprintSHA256(s.key) }

var errUnknown = errors.New("the key is not authorised")

// admit says whether a key is in a file.
func admit(file string, key ssh.PublicKey) error {
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxAuthorized {
		return errUnknown
	}
	rest, err := os.ReadFile(file)
	if err != nil {
		return errUnknown
	}
	for len(rest) > 0 {
		var known ssh.PublicKey
		if known, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			return errUnknown
		}
		if bytes.Equal(known.Marshal(), key.Marshal()) {
			return nil
		}
	}
	return errUnknown
}

// Serve serves the connections of a listener until that is closed, or ctx ends. As with other SSH servers, what was started through a connection
// goes on when the connection ends, and ends with ctx.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	running, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	room := make(chan struct{}, MaxConnections)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		room <- struct{}{}
		conn, err := listener.Accept()
		if err != nil {
			kill(err)
			return err
		}
		all.Go(func() {
			defer func() { <-room }()
			defer conn.Close()
			of := &server{host: s.host, context: running}
			_ = of.serve(running, conn, s.config) // the client is told
		})
	}
}
