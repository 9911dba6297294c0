package ssh

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/youmark/pkcs8"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const (
	// maxKeys is how many keys there may be: no server looks at nearly as many.
	maxKeys = 64
	// maxKeyText bounds the text of a key, in bytes. One of RSA with 16384 bits has 13 KiB.
	maxKeyText = 64 << 10
)

// keyring holds keys in memory, and what is public of them.
type keyring struct {
	keys   agent.Agent
	public []publicKey
}

type publicKey struct{ fingerprint, kind string }

// newKeyring reads keys. No error holds any of their text: parsers quote what they do not understand.
func newKeyring(texts []string, passphrase string, lifetime time.Duration) (*keyring, error) {
	switch {
	case len(texts) == 0:
		return nil, errors.New("there are no keys")
	case len(texts) > maxKeys:
		return nil, fmt.Errorf("there are %d keys; at most %d are allowed", len(texts), maxKeys)
	}
	ring := &keyring{keys: agent.NewKeyring()}
	for i, text := range texts {
		name := fmt.Sprintf("key %d", i+1)
		key, err := parseKey(text, passphrase)
		if err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
		signer, err := ssh.NewSignerFromKey(key)
		if err == nil {
			err = ring.keys.Add(agent.AddedKey{PrivateKey: key, Comment: name, LifetimeSecs: seconds(lifetime)})
		}
		if err != nil {
			return nil, fmt.Errorf("%s is of a kind that SSH does not use", name)
		}
		public := signer.PublicKey()
		ring.public = append(ring.public, publicKey{ssh.FingerprintSHA256(public), public.Type()})
	}
	return ring, nil
}

// What is wrong with a key. Each follows the key's name.
var (
	errTooLong      = fmt.Errorf("is longer than %d bytes; is it a key?", maxKeyText)
	errEmpty        = errors.New("is empty; is its variable set for this job?")
	errOneLine      = errors.New("is on one line; keep its line breaks")
	errPath         = errors.New("is one line of text; if it is the path of a file, give what is in the file")
	errPublic       = errors.New("is a public key; the agent needs the private one")
	errPuTTY        = errors.New("is in the format of PuTTY; export it as an OpenSSH key")
	errNoKey        = errors.New("is not a private key in PEM, such as ssh-keygen writes it")
	errUnreadable   = errors.New("cannot be read; it is damaged, or of an unknown kind")
	errNoPassphrase = errors.New("is protected by a passphrase; give it as passphrase")
	errPassphrase   = errors.New("is protected by another passphrase")
)

// parseKey reads a private key in any of the formats of PEM: OpenSSH's, those of RSA, EC and DSA, and PKCS #8.
func parseKey(text, passphrase string) (any, error) {
	if len(text) > maxKeyText {
		return nil, errTooLong
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")) + "\n"
	block := findKey([]byte(text))
	if block == nil {
		return nil, explain(strings.TrimSpace(text))
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" {
		return parsePKCS8(block.Bytes, passphrase)
	}
	key, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(block))
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) {
		if passphrase == "" {
			return nil, errNoPassphrase
		}
		if key, err = ssh.ParseRawPrivateKeyWithPassphrase(pem.EncodeToMemory(block), []byte(passphrase)); err != nil {
			return nil, errPassphrase
		}
	}
	if err != nil {
		return nil, errUnreadable
	}
	return key, nil
}

func parsePKCS8(der []byte, passphrase string) (any, error) {
	if passphrase == "" {
		return nil, errNoPassphrase
	}
	key, err := pkcs8.ParsePKCS8PrivateKey(der, []byte(passphrase))
	if err != nil {
		return nil, errPassphrase
	}
	if ed, ok := key.(ed25519.PrivateKey); ok {
		return &ed, nil
	}
	return key, nil
}

// findKey returns the first private key of a text, which may have other things before it, such as the parameters of a curve.
func findKey(text []byte) *pem.Block {
	for {
		block, rest := pem.Decode(text)
		if block == nil || strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block
		}
		text = rest
	}
}

// explain says what a text is that is not a key.
func explain(text string) error {
	oneLine := !strings.Contains(text, "\n")
	switch {
	case text == "":
		return errEmpty
	case strings.HasPrefix(text, "-----BEGIN") && oneLine:
		return errOneLine
	case strings.HasPrefix(text, "PuTTY-User-Key-File"):
		return errPuTTY
	case isPublic(text):
		return errPublic
	case oneLine && !strings.Contains(text, " "):
		return errPath
	}
	return errNoKey
}

func isPublic(text string) bool {
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text)); err == nil {
		return true
	}
	return strings.HasPrefix(text, "-----BEGIN PUBLIC KEY") || strings.HasPrefix(text, "---- BEGIN SSH2 PUBLIC KEY")
}

// parseLifetime reads how long keys are kept; "" is 0, without end.
func parseLifetime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > math.MaxUint32*time.Second {
		return 0, fmt.Errorf("lifetime is %q; it must be a time such as 10m or 1h30m", text)
	}
	return d, nil
}

// seconds rounds up: a key must not be gone before its time.
func seconds(d time.Duration) uint32 { return uint32((d + time.Second - 1) / time.Second) }

// checkKnownHosts finds the first line that ssh would pass over in silence, and then refuse the host.
func checkKnownHosts(text string) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !isHost(strings.Fields(line)) {
			return fmt.Errorf("known_hosts: line %d is not a host with its key, as ssh-keyscan writes it", number)
		}
	}
	return nil
}

// isHost reports whether a line is hosts, the kind of a key, and a key that says that it is of this kind. Which kinds there are is for ssh
// to know.
func isHost(fields []string) bool {
	if len(fields) > 0 && strings.HasPrefix(fields[0], "@") {
		fields = fields[1:]
	}
	if len(fields) < 3 {
		return false
	}
	kind := fields[1]
	key, err := base64.StdEncoding.DecodeString(fields[2])
	return err == nil && len(key) > 4+len(kind) && int(binary.BigEndian.Uint32(key)) == len(kind) && string(key[4:4+len(kind)]) == kind
}
