package signature

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/ssh"
)

// MaxKeyFile bounds the text of a key, in bytes.
const MaxKeyFile = 64 << 10

// The types of PEM blocks that keys are in.
const (
	pemPublic    = "PUBLIC KEY"
	pemPKCS8     = "PRIVATE KEY"
	pemProtected = "ENCRYPTED PRIVATE KEY"
	pemSEC1      = "EC PRIVATE KEY"
	pemOpenSSH   = "OPENSSH PRIVATE KEY"
)

// ParsePublicKey reads a public key: PKIX in PEM ("PUBLIC KEY"), OpenSSH's one line ("ssh-ed25519 AAAA…"), or the public part
// of any private key that ParsePrivateKey reads. Of keys that are protected by a password only OpenSSH's show their public
// part; others are a *PasswordError. Every other error is a *KeyError.
func ParsePublicKey(text []byte) (PublicKey, error) {
	if len(text) > MaxKeyFile {
		return PublicKey{}, keyError("it is larger than %d KiB, and no key is", MaxKeyFile>>10)
	}
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		return parseLine(text)
	}
	block, err := onlyKey(text)
	if err != nil {
		return PublicKey{}, err
	}
	if block.Type == pemPublic {
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return PublicKey{}, keyError("its PUBLIC KEY is damaged: %v", err)
		}
		return newPublicKey(key)
	}
	private, err := ParsePrivateKey(text, nil)
	if err == nil {
		return private.Public(), nil
	}
	var protected *ssh.PassphraseMissingError
	if _, raw := ssh.ParseRawPrivateKey(text); errors.As(raw, &protected) && protected.PublicKey != nil {
		return fromSSH(protected.PublicKey)
	}
	return PublicKey{}, err
}

// parseLine reads OpenSSH's one line.
func parseLine(text []byte) (PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey(text)
	switch {
	case err != nil:
		return PublicKey{}, keyError(`it is not a key: neither PEM ("-----BEGIN …") nor a line of OpenSSH ("ssh-ed25519 AAAA…")`)
	case len(options) > 0:
		return PublicKey{}, keyError("something is before the key; write the line of the .pub file alone, as ssh-keygen does")
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey(rest); err == nil {
		return PublicKey{}, severalKeys()
	}
	return fromSSH(key)
}

func fromSSH(key ssh.PublicKey) (PublicKey, error) {
	raw, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return PublicKey{}, keyError("keys of the type %s are not supported; use an ed25519 or an ECDSA key", key.Type())
	}
	switch key.Type() {
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		// What such a key signs is not the message alone.
		return PublicKey{}, keyError("keys of the type %s are not supported; use one that is not on a security key", key.Type())
	}
	return newPublicKey(raw.CryptoPublicKey())
}

// onlyKey returns the PEM block of the one key in the text. The parameters that openssl writes before EC keys are none.
func onlyKey(text []byte) (*pem.Block, error) {
	var found *pem.Block
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type == "EC PARAMETERS" {
			continue
		}
		if found != nil {
			return nil, severalKeys()
		}
		found = block
	}
	if found == nil {
		return nil, keyError("its PEM text is damaged")
	}
	return found, nil
}

func severalKeys() error {
	return keyError("it holds several keys; give each a file of its own")
}
