package sshclient

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// passwordServer lets in whoever has a password, and returns its address.
func passwordServer(t *testing.T, password string) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
		if string(given) != password {
			return nil, net.ErrClosed
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if _, channels, requests, err := ssh.NewServerConn(conn, config); err == nil {
					go ssh.DiscardRequests(requests)
					for c := range channels {
						_ = c.Reject(ssh.Prohibited, "")
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestAPasswordAndAHostOfAnyKey(t *testing.T) {
	address := passwordServer(t, "s3cret-word")
	host, port, _ := net.SplitHostPort(address)
	known := filepath.Join(t.TempDir(), "known_hosts")
	for name, c := range map[string]struct {
		password string
		any      bool
		wrong    string
	}{
		"the right password":       {"s3cret-word", true, ""},
		"a wrong one":              {"wrong-word", true, "accepts neither the password nor any of the keys"},
		"none":                     {"", true, "accepts none of the keys"},
		"a host that nobody knows": {"s3cret-word", false, "is not known"},
	} {
		client, err := Dial(t.Context(), &Target{Host: host, Port: port, User: "job", Password: c.password, AnyHostKey: c.any, KnownHosts: []string{known}, Config: []string{}}, nil)
		if (err == nil) != (c.wrong == "") || err != nil && (!strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "-word")) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = client.Close()
		}
	}
	if _, err := os.Stat(known); err == nil {
		t.Error("a key was recorded that nobody has checked")
	}
}
