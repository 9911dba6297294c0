package signature

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// StatementType is the type of in-toto statements, version 1.
const StatementType = "https://in-toto.io/Statement/v1"

// ContentDigest is the name, in sets of digests, of a component's content digest: the SHA-256 of the list of its files that
// docs/signatures.md describes. It is no "dirHash", which is made from other bytes.
const ContentDigest = "rungContent"

// Statement is an in-toto statement: something that is so about its subjects.
type Statement struct {
	Type          string          `json:"_type"` // StatementType
	Subject       []Resource      `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// Resource is in-toto's ResourceDescriptor: something that has digests, by algorithm, in hexadecimal.
type Resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	MediaType   string            `json:"mediaType,omitempty"`
	Annotations map[string]any    `json:"annotations,omitempty"`
}

// Envelope returns the statement in an envelope that nobody has signed. The same statement gives the same bytes.
func (s *Statement) Envelope() (*Envelope, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, formatError("the statement cannot be written as JSON: %v", err)
	}
	return &Envelope{PayloadType: PayloadType, Payload: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}, nil
}

// Statement reads the payload as an in-toto statement of the given predicate type. It checks no signature: call Verify
// first. The error is a *FormatError.
func (e *Envelope) Statement(predicateType string) (*Statement, error) {
	if e.PayloadType != PayloadType {
		return nil, formatError("what is signed is a %q, not an in-toto statement (%q)", e.PayloadType, PayloadType)
	}
	var s Statement
	dec := json.NewDecoder(bytes.NewReader(e.Payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, formatError("the signed statement cannot be read: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, formatError("something stands behind the signed statement")
	}
	switch {
	case s.Type != StatementType:
		return nil, formatError("the signed statement has the type %q, not %q", s.Type, StatementType)
	case s.PredicateType != predicateType:
		return nil, formatError("the signed statement is about something else: its predicate is %q, not %q", s.PredicateType, predicateType)
	case len(s.Subject) == 0:
		return nil, formatError("the signed statement has no subject")
	}
	return &s, nil
}

// hexSHA256 takes "sha256:" off a digest, and checks what is left.
func hexSHA256(digest string) (string, error) {
	text, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(text); !ok || err != nil || len(raw) != 32 || text != strings.ToLower(text) {
		return "", formatError(`%q is not a digest: "sha256:" and 64 hexadecimal digits`, digest)
	}
	return text, nil
}
