package signature_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	in_toto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rungci/rung/steps/signature"
)

var (
	digest  = "sha256:" + strings.Repeat("ab", 32)
	another = "sha256:" + strings.Repeat("ac", 32)
)

func component(t testing.TB, digest string, keys ...*signature.PrivateKey) []byte {
	t.Helper()
	s, err := signature.ComponentStatement(digest)
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Envelope()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := e.Sign(key); err != nil {
			t.Fatal(err)
		}
	}
	return e.Encode()
}

// verifyComponent checks an envelope as those do who take a component: who has signed, and what. It returns the ID of the first key that has signed.
func verifyComponent(envelope []byte, digest string, keys []signature.PublicKey) (keyID string, err error) {
	e, err := signature.ParseEnvelope(envelope)
	if err != nil {
		return "", err
	}
	checks, err := e.Verify(keys, 1)
	if err != nil {
		return "", err
	}
	if err := e.CoversComponent(digest); err != nil {
		return "", err
	}
	i := slices.IndexFunc(checks, func(c signature.Check) bool { return c.Status == signature.Valid })
	return checks[i].Key.ID(), nil
}

func TestVerifyComponent(t *testing.T) {
	t.Parallel()
	a, b := newKey(t, "ed25519"), newKey(t, "ECDSA P-256")
	damaged, err := signature.ParseEnvelope(component(t, digest, a))
	if err != nil {
		t.Fatal(err)
	}
	damaged.Signatures[0].Sig[3] ^= 4
	plain := &signature.Envelope{PayloadType: "text/plain", Payload: []byte("hi")}
	other := &signature.Statement{
		Type: signature.StatementType, Subject: []signature.Resource{{Name: "x"}},
		PredicateType: "https://slsa.dev/provenance/v1", Predicate: json.RawMessage(`{}`),
	}
	about, err := other.Envelope()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*signature.Envelope{plain, about} {
		if err := e.Sign(a); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name     string
		envelope []byte
		keys     []signature.PublicKey
		keyID    string
		form     bool   // the error is about the form
		want     string // of the error
	}{
		{"signed by the one key that is trusted", component(t, digest, a), publics(a), a.Public().ID(), false, ""},
		{"one of the trusted keys is enough", component(t, digest, b), publics(a, b), b.Public().ID(), false, ""},
		{"signed by others, too", component(t, digest, a, b), publics(b), b.Public().ID(), false, ""},
		{"signed by somebody else", component(t, digest, a), publics(b), "", false, "no signature of the key"},
		{"no key is trusted", component(t, digest, a), nil, "", false, "0 keys"},
		{"other files were signed", component(t, another, a), publics(a), "", false, "not those that were signed"},
		{"a damaged signature", damaged.Encode(), publics(a, b), "", false, "is wrong"},
		{"something else is signed", plain.Encode(), publics(a), "", true, "not an in-toto statement"},
		{"the statement says something else", about.Encode(), publics(a), "", true, "about something else"},
		{"no envelope", []byte("hello"), publics(a), "", true, "not a DSSE envelope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keyID, err := verifyComponent(tt.envelope, digest, tt.keys)
			var form *signature.FormatError
			var wrong *signature.VerifyError
			switch {
			case keyID != tt.keyID:
				t.Errorf("the key is %q, want %q; error %v", keyID, tt.keyID, err)
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			case err != nil && errors.As(err, &form) != tt.form, err != nil && errors.As(err, &wrong) == tt.form:
				t.Errorf("error of the type %T", err)
			}
		})
	}
}

func TestComponentStatementIsWhatOthersRead(t *testing.T) {
	t.Parallel()
	e, err := signature.ParseEnvelope(component(t, digest, newKey(t, "ed25519")))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"component","digest":{"rungContent":"` +
		strings.Repeat("ab", 32) + `"}}],"predicateType":"` + signature.ComponentPredicate + `","predicate":{}}`
	if string(e.Payload) != want {
		t.Errorf("statement\n%s, want\n%s", e.Payload, want)
	}
	var s in_toto.Statement
	if err := protojson.Unmarshal(e.Payload, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "abc", "sha256:", "sha256:" + strings.Repeat("AB", 32), "sha512:" + strings.Repeat("ab", 32)} {
		if _, err := signature.ComponentStatement(bad); err == nil {
			t.Errorf("the digest %q is taken", bad)
		}
	}
}

func TestStatementsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		``, `[]`, `{}`, `{} {}`, `{"_type":"https://in-toto.io/Statement/v0.1"}`, `{"x":1}`,
		`{"_type":"` + signature.StatementType + `","subject":[],"predicateType":"p","predicate":{}}`,
		`{"_type":"` + signature.StatementType + `","subject":[{"name":"a"}],"predicateType":"q","predicate":{}}`,
	} {
		e := &signature.Envelope{PayloadType: signature.PayloadType, Payload: []byte(payload)}
		var form *signature.FormatError
		if s, err := e.Statement("p"); !errors.As(err, &form) {
			t.Errorf("%s is read as %v, %v", payload, s, err)
		}
	}
}
