package signature_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"

	"github.com/rungci/rung/steps/signature"
)

func signed(t testing.TB, payload string, keys ...*signature.PrivateKey) *signature.Envelope {
	t.Helper()
	e := &signature.Envelope{PayloadType: signature.PayloadType, Payload: []byte(payload)}
	for _, key := range keys {
		if err := e.Sign(key); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func publics(keys ...*signature.PrivateKey) []signature.PublicKey {
	var all []signature.PublicKey
	for _, key := range keys {
		all = append(all, key.Public())
	}
	return all
}

// independent makes the other library's signer and verifier of a key.
func independent(t testing.TB, text []byte) (dsse.SignerVerifier, *signerverifier.SSLibKey) {
	t.Helper()
	key, err := signerverifier.LoadKey(text)
	if err != nil {
		t.Fatal(err)
	}
	var v dsse.SignerVerifier
	if key.KeyType == signerverifier.ED25519KeyType {
		v, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	} else {
		v, err = signerverifier.NewECDSASignerVerifierFromSSLibKey(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v, key
}

// unnamed is a key whose ID the other library makes up itself.
type unnamed struct{ dsse.SignerVerifier }

func (unnamed) KeyID() (string, error) { return "", nil }

func TestOursAndTheIndependentVerifierAgree(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			key, err := a.generate()
			if err != nil {
				t.Fatal(err)
			}
			text := pkcs8Of(t, key)
			ours := parsed(t, text, nil)
			theirs, sslib := independent(t, text)

			// It verifies what we sign, and finds the key by the name that we give it.
			var e dsse.Envelope
			if err := json.Unmarshal(signed(t, `{"a":1}`, ours).Encode(), &e); err != nil {
				t.Fatal(err)
			}
			verifier, err := dsse.NewEnvelopeVerifier(unnamed{theirs})
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := verifier.Verify(context.Background(), &e)
			if err != nil || len(accepted) != 1 || accepted[0].KeyID != ours.Public().ID() {
				t.Errorf("the independent verifier says %v, %v", accepted, err)
			}
			e.Payload = base64.StdEncoding.EncodeToString([]byte(`{"a":2}`))
			if _, err := verifier.Verify(context.Background(), &e); err == nil {
				t.Error("the independent verifier takes another payload: this test shows nothing")
			}

			// We verify what it signs, under any of the names that it gives keys.
			for _, signer := range []dsse.Signer{theirs, unnamed{theirs}} {
				es, err := dsse.NewEnvelopeSigner(signer)
				if err != nil {
					t.Fatal(err)
				}
				foreign, err := es.SignPayload(context.Background(), signature.PayloadType, []byte(`{"b":1}`))
				if err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(foreign)
				if err != nil {
					t.Fatal(err)
				}
				got, err := signature.ParseEnvelope(raw)
				if err != nil {
					t.Fatal(err)
				}
				if checks, err := got.Verify(publics(ours), 1); err != nil || string(got.Payload) != `{"b":1}` {
					t.Errorf("its signature with the name %q: %v %v", foreign.Signatures[0].KeyID, checks, err)
				}
			}
			if sslib.KeyID == "" {
				t.Error("the other library names no keys any more")
			}
		})
	}
}

func TestTheSameStatementAndKeyGiveTheSameEnvelope(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		key := newKey(t, a.name)
		first, second := signed(t, "x", key).Encode(), signed(t, "x", key).Encode()
		if !bytes.Equal(first, second) {
			t.Errorf("%s: two envelopes differ:\n%s%s", a.name, first, second)
		}
	}
}

// TestAChangedByteAnywhereFails changes every byte of envelopes, to every other value where a reader could be lenient.
func TestAChangedByteAnywhereFails(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			one, other := newKey(t, a.name), newKey(t, "ed25519")
			try := oneBit // ECDSA is slow
			if a.name == "ed25519" {
				try = everyValue
			}
			everyChangeFails(t, signed(t, `{"_type":"x"}`, one, other).Encode(), publics(one, other), 2, try)
		})
	}
	t.Run("of an envelope by another program, whose keys have no names", func(t *testing.T) {
		t.Parallel()
		key := newKey(t, "ed25519")
		e := signed(t, `{}`, key)
		e.Signatures[0].KeyID = ""
		everyChangeFails(t, e.Encode(), publics(key), 1, everyValue)
	})
	t.Run("even when fewer signatures would do, as long as its key was given", func(t *testing.T) {
		t.Parallel()
		one, other := newKey(t, "ed25519"), newKey(t, "ed25519")
		e := signed(t, `{}`, one, other)
		e.Signatures[1].Sig[0] ^= 1
		var wrong *signature.VerifyError
		if _, err := e.Verify(publics(one, other), 1); !errors.As(err, &wrong) {
			t.Errorf("error %v", err)
		}
	})
}

func everyChangeFails(t *testing.T, good []byte, keys []signature.PublicKey, threshold int, try func(at int, b byte) []byte) {
	t.Helper()
	if err := verify(good, keys, threshold); err != nil {
		t.Fatalf("the envelope is wrong before it is changed: %v", err)
	}
	for i := range good {
		changed := slices.Clone(good)
		for _, flip := range try(i, good[i]) {
			if changed[i] = good[i] ^ flip; verify(changed, keys, threshold) == nil {
				t.Fatalf("byte %d can be %q instead of %q: %s", i, changed[i], good[i], changed)
			}
		}
		if verify(slices.Delete(slices.Clone(good), i, i+1), keys, threshold) == nil && i != len(good)-1 {
			t.Fatalf("byte %d (%q) can be left out", i, good[i])
		}
	}
}

// oneBit changes one bit, another at each place.
func oneBit(at int, _ byte) []byte { return []byte{1 << (at % 8)} }

// everyValue changes a byte to all others, but only the single bits of letters and digits, where nothing but a signature tells.
func everyValue(_ int, b byte) []byte {
	if b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' {
		return []byte{1, 2, 4, 8, 16, 32, 64, 128}
	}
	all := make([]byte, 255)
	for i := range all {
		all[i] = byte(i + 1)
	}
	return all
}

func verify(data []byte, keys []signature.PublicKey, threshold int) error {
	e, err := signature.ParseEnvelope(data)
	if err != nil {
		return err
	}
	_, err = e.Verify(keys, threshold)
	return err
}

func TestEnvelopesHaveOneForm(t *testing.T) {
	t.Parallel()
	const good = `{"payloadType":"t","payload":"e30=","signatures":[{"keyid":"k","sig":"AAAA"}]}`
	if _, err := signature.ParseEnvelope([]byte(good)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, old, new, want string }{
		{"white space", `,"payload":`, `, "payload":`, "white space"},
		{"white space at the end", `}]}`, "}]} ", "behind its end"},
		{"two line feeds", `}]}`, "}]}\n\n", "behind its end"},
		{"two documents", `}]}`, "}]}{}", "behind its end"},
		{"an unknown field", `"payload":`, `"x":"","payload":`, `no field "x"`},
		{"a field with another case", `"payload"`, `"Payload"`, `no field "Payload"`},
		{"a field twice", `"payload":`, `"payload":"","payload":`, "twice"},
		{"a field twice in a signature", `"sig":`, `"sig":"","sig":`, "twice"},
		{"an unknown field in a signature", `"keyid":"k"`, `"cert":"k"`, `no field "cert"`},
		{"no payload", `"payload":"e30=",`, ``, `"payload" is missing`},
		{"no type", `"payloadType":"t",`, ``, `"payloadType" is missing`},
		{"no signatures field", `,"signatures":[{"keyid":"k","sig":"AAAA"}]`, ``, `"signatures" is missing`},
		{"no signature", `{"keyid":"k","sig":"AAAA"}`, ``, "no signatures"},
		{"no sig", `,"sig":"AAAA"`, ``, `"sig" is missing`},
		{"an escape", `"t"`, `"\u0074"`, "escape"},
		{"another alphabet", `"k"`, `"ü"`, "ASCII"},
		{"a null", `"t"`, `null`, "should be"},
		{"base64 for URLs", `"AAAA"`, `"-_AA"`, "base64"},
		{"base64 without padding", `"e30="`, `"e30"`, "base64"},
		{"base64 whose last bits count for nothing", `"e30="`, `"e31="`, "base64"},
		{"a comma too many", `"AAAA"}]`, `"AAAA"},]`, "should be"},
		{"a cut", `"AAAA"}]}`, `"AA`, "ends in a string"},
		{"another cut", `"AAAA"}]}`, `"AAAA"}]`, "too early"},
		{"nothing", good, ``, "too early"},
		{"too many signatures", `{"keyid":"k","sig":"AAAA"}`, strings.Repeat(`{"sig":""},`, signature.MaxSignatures) + `{"sig":""}`, "more than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, tt.old, tt.new, 1)
			_, err := signature.ParseEnvelope([]byte(text))
			var form *signature.FormatError
			if !errors.As(err, &form) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s\nerror %v, want a *FormatError with %q", text, err, tt.want)
			}
		})
	}
	if _, err := signature.ParseEnvelope(make([]byte, signature.MaxEnvelope+1)); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a large envelope: %v", err)
	}
}

func TestVerifyCountsKeysNotSignatures(t *testing.T) {
	t.Parallel()
	a, b, c := newKey(t, "ed25519"), newKey(t, "ECDSA P-256"), newKey(t, "ECDSA P-384")
	tests := []struct {
		name      string
		signers   []*signature.PrivateKey
		keys      []signature.PublicKey
		threshold int
		want      string // of the error; "" is none
	}{
		{"one of one", []*signature.PrivateKey{a}, publics(a), 1, ""},
		{"two of two", []*signature.PrivateKey{a, b}, publics(b, a), 2, ""},
		{"one of two", []*signature.PrivateKey{b}, publics(a, b), 1, ""},
		{"one of two where both must", []*signature.PrivateKey{b}, publics(a, b), 2, "no signature of the key " + a.Public().ID()},
		{"two of three", []*signature.PrivateKey{a, c}, publics(a, b, c), 2, ""},
		{"one of three where two must", []*signature.PrivateKey{c}, publics(a, b, c), 2, "1 of the keys have signed, and 2 must"},
		{"a signature more, of somebody else", []*signature.PrivateKey{a, c}, publics(a), 1, ""},
		{"of somebody else only", []*signature.PrivateKey{c}, publics(a), 1, "no signature of the key"},
		{"one key given twice is one key", []*signature.PrivateKey{a}, publics(a, a), 2, "2 signatures are asked for, and 1 keys"},
		{"no keys", []*signature.PrivateKey{a}, nil, 1, "0 keys are given"},
		{"a threshold of nothing", []*signature.PrivateKey{a}, publics(a), 0, "0 signatures are asked for"},
		{"the same signer twice is one signature", []*signature.PrivateKey{a, a}, publics(a, b), 2, "no signature of the key " + b.Public().ID()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checks, err := signed(t, "x", tt.signers...).Verify(tt.keys, tt.threshold)
			var wrong *signature.VerifyError
			if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q; checks %v", err, tt.want, checks)
			}
		})
	}
	t.Run("a copy of a signature counts once", func(t *testing.T) {
		t.Parallel()
		e := signed(t, "x", a)
		e.Signatures = append(e.Signatures, signature.Signature{Sig: e.Signatures[0].Sig})
		if _, err := e.Verify(publics(a, b), 2); err == nil {
			t.Error("two copies of a signature stand for two keys")
		}
	})
	t.Run("another type is another message", func(t *testing.T) {
		t.Parallel()
		e := signed(t, "x", a)
		e.PayloadType = "text/plain"
		if _, err := e.Verify(publics(a), 1); err == nil {
			t.Error("the type of the payload is not signed")
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add(signed(f, `{"a":1}`, newKey(f, "ed25519"), newKey(f, "ECDSA P-256")).Encode())
	f.Add([]byte(`{"payloadType":"t","payload":"e30=","signatures":[{"sig":"AAAA"}]}`))
	f.Add([]byte(`{"signatures":[],"payload":"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := signature.ParseEnvelope(data)
		if err != nil {
			return
		}
		again, err := signature.ParseEnvelope(e.Encode())
		if err != nil {
			t.Fatalf("%q was read as %+v, whose form is refused: %v", data, e, err)
		}
		if !bytes.Equal(again.Encode(), e.Encode()) {
			t.Errorf("%q is read in two ways", data)
		}
		var theirs dsse.Envelope
		if err := json.Unmarshal(data, &theirs); err != nil {
			t.Errorf("%q is not JSON to others: %v", data, err)
		}
	})
}
