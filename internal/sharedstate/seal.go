package sharedstate

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
)

const (
	keySize = 32
	// What is longer than minPacked bytes is compressed. The first byte says whether it is.
	minPacked     = 2 << 10
	plain, packed = 0, 1
)

// sealer seals objects (AES-256-GCM), each for its name: one that is put in another one's place does not open.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "rung shared state: objects", keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &sealer{aead}, err
}

// close makes an object of a value.
func (s *sealer) close(name string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	content := append([]byte{plain}, text...)
	if len(text) > minPacked {
		if content, err = pack(text); err != nil {
			return nil, err
		}
	}
	return s.aead.Seal(nil, nil, content, []byte(name)), nil
}

func pack(text []byte) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte(packed)
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a level that exists
	if _, err := zip.Write(text); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// open reads the value of an object.
func (s *sealer) open(name string, object []byte, value any) error {
	content, err := s.aead.Open(nil, nil, object, []byte(name))
	if err != nil || len(content) == 0 {
		return fmt.Errorf("%w, or the object %s is damaged; all managers need the same key", ErrKey, name)
	}
	var text io.Reader = bytes.NewReader(content[1:])
	if content[0] == packed {
		text, err = gzip.NewReader(text)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(text, 2*MaxState)).Decode(value)
	}
	if err != nil {
		return fmt.Errorf("the object %s: %w", name, err)
	}
	return nil
}
