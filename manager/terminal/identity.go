package terminal

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"
)

// Kept is what another process needs to go on with a session. It holds secrets.
type Kept struct {
	ID            string   `json:"id"`
	Authorization string   `json:"authorization"`
	Server        Identity `json:"server"`
}

// Identity is what GitLab knows a Server by: where it is, and the certificate to expect there. It holds the key of that, a secret.
type Identity struct {
	Address     string `json:"address"`     // https://HOST:PORT
	Certificate []byte `json:"certificate"` // PEM
	Key         []byte `json:"key"`         // PEM
}

// Kept is what Server.Resume goes on with; nil for no session.
func (s *Session) Kept() *Kept {
	if s == nil {
		return nil
	}
	return &Kept{ID: s.id, Authorization: s.authorization, Server: s.server.identity}
}

// Resume goes on with a session of another process. It returns nil if this is not the server that GitLab was told of.
func (s *Server) Resume(k *Kept, limit time.Duration) *Session {
	if s == nil || k == nil || k.Server.Address != s.identity.Address || !bytes.Equal(k.Server.Certificate, s.identity.Certificate) {
		return nil
	}
	return s.add(k.ID, k.Authorization, limit)
}

// Identity is the server's.
func (s *Server) Identity() Identity { return s.identity }

// identify makes an identity for a host at an address, or takes the one that it had before.
func identify(address, host string, known map[string]Identity) (Identity, tls.Certificate, error) {
	if before, ok := known[address]; ok {
		if pair, err := tls.X509KeyPair(before.Certificate, before.Key); err == nil && time.Now().Before(pair.Leaf.NotAfter) {
			return before, pair, nil
		}
	}
	certificate, key, err := selfSigned(host)
	if err != nil {
		return Identity{}, tls.Certificate{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, tls.Certificate{}, err
	}
	made := Identity{
		Address: address, Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	pair, err := tls.X509KeyPair(made.Certificate, made.Key)
	return made, pair, err
}
