// Package signature signs statements about what ran and what steps are made of, and checks such signatures.
//
// A statement is an in-toto Statement v1: digests of things, and a predicate that says what is so about them. It travels in a
// DSSE envelope, which holds its bytes and any number of signatures over them. Keys are ed25519 and ECDSA, in the files that
// openssl and ssh-keygen write. The package knows keys, envelopes and the outer form of statements; docs/signatures.md
// describes all of it for those who check signatures with other tools.
package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"

	_ "crypto/sha512" // crypto.SHA384 and crypto.SHA512

	"golang.org/x/crypto/ssh"
)

// PublicKey checks signatures. The zero PublicKey accepts none; ParsePublicKey and PrivateKey.Public make others.
type PublicKey struct {
	key   crypto.PublicKey // ed25519.PublicKey or *ecdsa.PublicKey
	id    string
	alias string
}

func newPublicKey(key any) (PublicKey, error) {
	switch k := key.(type) {
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return PublicKey{}, keyError("it is not an ed25519 key: it has %d bytes, not %d", len(k), ed25519.PublicKeySize)
		}
	case *ecdsa.PublicKey:
		if hashOf(k.Curve) == 0 {
			return PublicKey{}, keyError("ECDSA keys are supported on the curves P-256, P-384 and P-521, not on %s", k.Params().Name)
		}
	default:
		return PublicKey{}, keyError("%s are not supported; use an ed25519 or an ECDSA key", kindOf(key))
	}
	form, err := ssh.NewPublicKey(key)
	if err != nil {
		return PublicKey{}, keyError("it is not a usable public key: %v", err)
	}
	alias, err := securesystemslibID(key)
	if err != nil {
		return PublicKey{}, keyError("it is not a usable public key: %v", err)
	}
	return PublicKey{key: key, id: ssh.FingerprintSHA256(form), alias: alias}, nil
}

// ID identifies the key: "SHA256:" and the unpadded base64 of the SHA-256 of the key in SSH's form. `ssh-keygen -l` prints the
// same.
func (k PublicKey) ID() string { return k.id }

// String names the key and its algorithm, for people.
func (k PublicKey) String() string { return k.id + " (" + k.Algorithm() + ")" }

// Algorithm returns "ed25519", "ECDSA P-256", "ECDSA P-384" or "ECDSA P-521".
func (k PublicKey) Algorithm() string {
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		return "ed25519"
	case *ecdsa.PublicKey:
		return "ECDSA " + key.Params().Name
	default:
		return "no key"
	}
}

// named reports whether id is a name of this key: its own, or that which other in-toto tools give it.
func (k PublicKey) named(id string) bool { return id != "" && (id == k.id || id == k.alias) }

// verify reports whether sig is the key's signature over the message.
func (k PublicKey) verify(message, sig []byte) bool {
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, sig)
	case *ecdsa.PublicKey:
		h := hashOf(key.Curve).New()
		h.Write(message)
		return ecdsa.VerifyASN1(key, h.Sum(nil), sig)
	default:
		return false
	}
}

// MarshalPEM returns the key as a PKIX "PUBLIC KEY" in PEM, which openssl and cosign read.
func (k PublicKey) MarshalPEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// hashOf returns the hash that goes with a curve, 0 for curves that are not supported.
func hashOf(curve elliptic.Curve) crypto.Hash {
	switch curve {
	case elliptic.P256():
		return crypto.SHA256
	case elliptic.P384():
		return crypto.SHA384
	case elliptic.P521():
		return crypto.SHA512
	default:
		return 0
	}
}

// securesystemslibID is what in-toto's own libraries call a key: the SHA-256, in hexadecimal, of its description in canonical
// JSON. Every ECDSA key there has the scheme of P-256.
func securesystemslibID(key any) (string, error) {
	var keytype, scheme, public string
	switch k := key.(type) {
	case ed25519.PublicKey:
		keytype, scheme, public = "ed25519", "ed25519", hex.EncodeToString(k)
	default:
		der, err := x509.MarshalPKIXPublicKey(k)
		if err != nil {
			return "", err
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		keytype, scheme, public = "ecdsa", "ecdsa-sha2-nistp256", strings.TrimSpace(string(text))
	}
	// Canonical JSON has line feeds in strings as they are.
	description := fmt.Sprintf(`{"keyid_hash_algorithms":["sha256","sha512"],"keytype":"%s","keyval":{"public":"%s"},"scheme":"%s"}`,
		keytype, public, scheme)
	sum := sha256.Sum256([]byte(description))
	return hex.EncodeToString(sum[:]), nil
}
