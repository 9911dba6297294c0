package signature

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// PayloadType is the type of every payload that this program signs: an in-toto statement.
	PayloadType = "application/vnd.in-toto+json"
	// Suffix is what the name of an envelope ends in. It is added to the name of what is signed.
	Suffix = ".dsse"
	// MaxEnvelope bounds an envelope, in bytes.
	MaxEnvelope = 64 << 20
	// MaxSignatures bounds how many signatures an envelope may hold.
	MaxSignatures = 64
)

// Envelope is a DSSE envelope: a payload and signatures over it and its type.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []Signature `json:"signatures"`
}

// Signature is one signature in an envelope.
type Signature struct {
	// KeyID names the key. Nothing signs the name itself: it only tells which key to try. Other programs may leave it out.
	KeyID string `json:"keyid,omitempty"`
	Sig   []byte `json:"sig"`
}

// Encode returns the envelope as it is stored: one line of JSON without white space, and a line feed.
func (e *Envelope) Encode() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic(fmt.Sprintf("signature: encoding an envelope: %v", err)) // strings and bytes always encode
	}
	return b.Bytes()
}

// pae returns what is signed: DSSE's pre-authentication encoding of type and payload.
func (e *Envelope) pae() []byte {
	b := make([]byte, 0, len(e.PayloadType)+len(e.Payload)+len("DSSEv1    ")+2*20)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(e.PayloadType)), 10)
	b = append(append(append(b, ' '), e.PayloadType...), ' ')
	b = strconv.AppendInt(b, int64(len(e.Payload)), 10)
	return append(append(b, ' '), e.Payload...)
}

// Sign adds the key's signature, in the place of an earlier one by the same key.
func (e *Envelope) Sign(key *PrivateKey) error {
	sig, err := key.sign(e.pae())
	if err != nil {
		return keyError("the key cannot sign: %v", err)
	}
	signed := Signature{key.public.id, sig}
	at := slices.IndexFunc(e.Signatures, func(s Signature) bool { return key.public.named(s.KeyID) })
	switch {
	case at >= 0:
		e.Signatures[at] = signed
	case len(e.Signatures) >= MaxSignatures:
		return formatError("it has %d signatures already, the limit", MaxSignatures)
	default:
		e.Signatures = append(e.Signatures, signed)
	}
	return nil
}

// Status is what is known of a signature.
type Status string

// What a signature can turn out to be.
const (
	Valid   Status = "valid"
	Invalid Status = "invalid" // it names a key that was given, and is not that key's signature over the payload
	Unknown Status = "unknown" // its key was not given
)

// Check is what is known of one signature of an envelope.
type Check struct {
	KeyID  string    `json:"keyid"` // as the envelope says it
	Key    PublicKey `json:"-"`     // the key that it names or that it is valid by; the zero key when it is Unknown
	Status Status    `json:"status"`
}

// Verify checks the signatures against the keys. It is satisfied, and returns nil, when at least threshold different keys have
// signed, and no signature that names one of the keys is wrong. The checks are there in any case, one for each signature, in
// order. The error is a *VerifyError. A threshold outside 1 to len(keys) is one as well: nothing can satisfy it.
func (e *Envelope) Verify(keys []PublicKey, threshold int) ([]Check, error) {
	message := e.pae()
	checks := make([]Check, len(e.Signatures))
	valid := map[string]bool{}
	var wrong []string
	for i, s := range e.Signatures {
		checks[i] = check(s, message, keys)
		switch checks[i].Status {
		case Valid:
			valid[checks[i].Key.id] = true
		case Invalid:
			wrong = append(wrong, checks[i].Key.id)
		}
	}
	return checks, verdict(keys, threshold, valid, wrong)
}

func check(s Signature, message []byte, keys []PublicKey) Check {
	c := Check{KeyID: s.KeyID, Status: Unknown}
	for _, key := range keys {
		if s.KeyID != "" && !key.named(s.KeyID) {
			continue
		}
		if key.verify(message, s.Sig) {
			return Check{s.KeyID, key, Valid}
		}
		if s.KeyID != "" {
			c.Key, c.Status = key, Invalid
		}
	}
	return c
}

func verdict(keys []PublicKey, threshold int, valid map[string]bool, wrong []string) error {
	if len(wrong) > 0 {
		return verifyError("the signature of the key %s is wrong: what was signed has changed, or the signature has", strings.Join(wrong, " and "))
	}
	given := map[string]bool{}
	var missing []string
	for _, key := range keys {
		if !valid[key.id] && !given[key.id] {
			missing = append(missing, key.id)
		}
		given[key.id] = true
	}
	switch {
	case threshold < 1 || threshold > len(given):
		return verifyError("%d signatures are asked for, and %d keys are given", threshold, len(given))
	case len(valid) >= threshold:
		return nil
	case threshold == len(given):
		return verifyError("there is no signature of the key %s", strings.Join(missing, " and "))
	}
	return verifyError("%d of the keys have signed, and %d must have: there is no signature of %s", len(valid), threshold, strings.Join(missing, ", "))
}
