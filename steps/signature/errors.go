package signature

import (
	"crypto/dsa" //nolint:staticcheck // only to say that such keys are not supported
	"crypto/ecdh"
	"crypto/rsa"
	"fmt"
	"strings"
)

// KeyError says why a key cannot be used. Its text never holds a part of the key.
type KeyError struct{ Reason string }

func (e *KeyError) Error() string { return e.Reason }

func keyError(format string, args ...any) error { return &KeyError{fmt.Sprintf(format, args...)} }

// PasswordError says that a private key is protected by a password, and that there was none or that it was not the right one.
type PasswordError struct{ Wrong bool }

func (e *PasswordError) Error() string {
	if e.Wrong {
		return "the password is not that of the key"
	}
	return "the key is protected by a password, and none was given"
}

// FormatError says what is wrong with the form of an envelope or a statement.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return e.Reason }

func formatError(format string, args ...any) error { return &FormatError{fmt.Sprintf(format, args...)} }

// VerifyError says that signatures do not vouch for what they should: some are missing, wrong, or for something else.
type VerifyError struct{ Reason string }

func (e *VerifyError) Error() string { return e.Reason }

func verifyError(format string, args ...any) error { return &VerifyError{fmt.Sprintf(format, args...)} }

// kindOf names a kind of key that is not supported, in the plural.
func kindOf(key any) string {
	switch key.(type) {
	case *rsa.PublicKey, *rsa.PrivateKey:
		return "RSA keys"
	case *dsa.PublicKey, *dsa.PrivateKey:
		return "DSA keys"
	case *ecdh.PublicKey, *ecdh.PrivateKey:
		return "X25519 keys, which cannot sign,"
	}
	return "keys of the type " + strings.TrimPrefix(fmt.Sprintf("%T", key), "*")
}
