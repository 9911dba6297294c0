package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"github.com/youmark/pkcs8"
	"golang.org/x/crypto/ssh"
)

// PrivateKey makes signatures.
type PrivateKey struct {
	key    crypto.Signer // ed25519.PrivateKey or *ecdsa.PrivateKey
	public PublicKey
}

// Public returns the key that checks what this one signs.
func (k *PrivateKey) Public() PublicKey { return k.public }

// sign returns the signature over the message. The same message always gets the same signature: ECDSA's nonce is made from
// key and message, as RFC 6979 says.
func (k *PrivateKey) sign(message []byte) ([]byte, error) {
	curved, ok := k.key.(*ecdsa.PrivateKey)
	if !ok {
		return k.key.Sign(nil, message, crypto.Hash(0))
	}
	hash := hashOf(curved.Curve)
	h := hash.New()
	h.Write(message)
	return curved.Sign(nil, h.Sum(nil), hash)
}

// ParsePrivateKey reads a private key in PEM: PKCS#8, with a password or without, SEC1 ("EC PRIVATE KEY"), or OpenSSH's own
// form, with a passphrase or without. The password is asked for when the key has one; nil stands for having none to give. The
// error is a *PasswordError, what password returned, or a *KeyError.
func ParsePrivateKey(text []byte, password func() ([]byte, error)) (*PrivateKey, error) {
	if len(text) > MaxKeyFile {
		return nil, keyError("it is larger than %d KiB, and no key is", MaxKeyFile>>10)
	}
	block, err := onlyKey(text)
	if err != nil {
		return nil, keyError("it is not a private key in PEM, as openssl and ssh-keygen write them: %v", err)
	}
	var key any
	switch block.Type {
	case pemPKCS8:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case pemProtected:
		key, err = parseProtected(block.Bytes, password)
	case pemSEC1:
		if block.Headers["DEK-Info"] != "" {
			return nil, keyError("it is protected in an old form, which guards its password badly; rewrite it with `openssl pkcs8 -topk8 -in KEY -out NEW`")
		}
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case pemOpenSSH:
		key, err = parseOpenSSH(block, password)
	case pemPublic:
		return nil, keyError("it is a public key; signing needs the private one")
	case "RSA PRIVATE KEY":
		return nil, keyError("RSA keys are not supported; use an ed25519 or an ECDSA key")
	default:
		return nil, keyError("a %q is not a private key that is supported", block.Type)
	}
	if err != nil {
		return nil, typed(block.Type, err)
	}
	return newPrivateKey(key)
}

// typed makes a *KeyError of what a parser says; the other kinds of error stay.
func typed(what string, err error) error {
	var wrong *PasswordError
	var own *KeyError
	var asked askError
	switch {
	case errors.As(err, &asked):
		return asked.error
	case errors.As(err, &wrong), errors.As(err, &own):
		return err
	}
	return keyError("its %s cannot be read: %v", what, err)
}

// askError is what asking for a password met.
type askError struct{ error }

func newPrivateKey(key any) (*PrivateKey, error) {
	switch k := key.(type) {
	case *ed25519.PrivateKey: // OpenSSH's parser returns a pointer
		return newPrivateKey(*k)
	case ed25519.PrivateKey:
		public, err := newPublicKey(k.Public())
		return &PrivateKey{k, public}, err
	case *ecdsa.PrivateKey:
		public, err := newPublicKey(k.Public())
		if err != nil {
			return nil, err
		}
		return &PrivateKey{k, public}, nil
	}
	return nil, keyError("%s are not supported; use an ed25519 or an ECDSA key", kindOf(key))
}

// ask gets the password, which cannot be empty.
func ask(password func() ([]byte, error)) ([]byte, error) {
	if password == nil {
		return nil, &PasswordError{}
	}
	text, err := password()
	if err != nil {
		return nil, askError{err}
	}
	if len(text) == 0 {
		return nil, &PasswordError{Wrong: true}
	}
	return text, nil
}

func parseOpenSSH(block *pem.Block, password func() ([]byte, error)) (any, error) {
	text := pem.EncodeToMemory(block) // what stands around it in the file is not for the parser
	key, err := ssh.ParseRawPrivateKey(text)
	var protected *ssh.PassphraseMissingError
	if !errors.As(err, &protected) {
		return key, err
	}
	secret, err := ask(password)
	if err != nil {
		return nil, err
	}
	key, err = ssh.ParseRawPrivateKeyWithPassphrase(text, secret)
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, &PasswordError{Wrong: true}
	}
	return key, err
}

func parseProtected(der []byte, password func() ([]byte, error)) (any, error) {
	if err := checkProtection(der); err != nil {
		return nil, err
	}
	secret, err := ask(password)
	if err != nil {
		return nil, err
	}
	key, err := pkcs8.ParsePKCS8PrivateKey(der, secret)
	if err != nil && err.Error() == "pkcs8: incorrect password" {
		return nil, &PasswordError{Wrong: true}
	}
	return key, err
}
