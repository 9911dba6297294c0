package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/keys"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/steps/signature"
)

// signExitCodesHelp is for the commands that sign.
const signExitCodesHelp = `Exit codes: 0 signed · 2 usage · 3 a key, an envelope or the trace is wrong · 4 the password is wrong, or others can read
the key · 5 internal error · 6 a file is missing`

// signaturesExitCodesHelp is for the commands that check signatures.
const signaturesExitCodesHelp = `Exit codes: 0 all is as it was signed · 2 usage · 3 a key or an envelope is malformed · 4 a signature is missing or wrong,
or the content differs · 5 internal error · 6 a file is missing`

// signInto adds a signature over the statement to the envelope in the file out; "-" writes a new one to standard output. An
// envelope about something else is replaced only by force.
func (a *app) signInto(out string, statement *signature.Statement, key *signature.PrivateKey, force bool) (*signature.Envelope, error) {
	envelope, err := statement.Envelope()
	if err != nil {
		return nil, err
	}
	if out != "-" && !force {
		known, err := keys.ReadEnvelope(out)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case known.PayloadType != envelope.PayloadType || !bytes.Equal(known.Payload, envelope.Payload):
			return nil, exit.Coded(exit.Denied, "%s holds signatures over something else, and they would be lost", out).
				Hinted("to add a signature, sign exactly what was signed there, with the same artifacts; --force replaces the file")
		default:
			envelope = known
		}
	}
	if err := envelope.Sign(key); err != nil {
		return nil, err
	}
	return envelope, a.WriteTo(out, command.Readable, func(w io.Writer) error {
		_, err := w.Write(envelope.Encode())
		return err
	})
}

// saySigned tells what was done, unless the envelope went to standard output.
func (a *app) saySigned(out, what string, key *signature.PrivateKey, envelope *signature.Envelope) {
	if out == "-" {
		return
	}
	fmt.Fprintf(a.Stdout, "signed %s with %s: %s has %s\n", what, key.Public(), out, quantity.Count(len(envelope.Signatures), "signature"))
}

// verification is what came of checking an envelope: for people a line each, and data for programs.
type verification struct {
	Verified   bool             `json:"verified"`
	Problem    string           `json:"problem,omitempty"` // the first
	Envelope   string           `json:"envelope"`
	Signatures []signatureCheck `json:"signatures"`
	Digest     string           `json:"digest,omitempty"` // of a component
	Run        *signedRun       `json:"run,omitempty"`
	Subjects   []subjectCheck   `json:"subjects,omitempty"`

	err error
}

// signatureCheck is what is known of the signature of one key.
type signatureCheck struct {
	KeyID     string `json:"keyid"`
	Algorithm string `json:"algorithm,omitempty"`
	File      string `json:"file,omitempty"` // the key's
	Status    string `json:"status"`         // valid, invalid, missing, unknown
}

// fail notes what is wrong. The first thing is what the command fails with.
func (v *verification) fail(err error) {
	if v.err == nil {
		v.err, v.Problem = err, err.Error()
	}
}

// verifyEnvelope reads an envelope and checks its signatures. The error says that it could not; that a signature is missing
// or wrong is in the verification.
func verifyEnvelope(path string, trusted *keys.TrustedKeys) (*verification, *signature.Envelope, error) {
	public, threshold, err := trusted.Open()
	if err != nil {
		return nil, nil, err
	}
	envelope, err := keys.ReadEnvelope(path)
	if err != nil {
		return nil, nil, err
	}
	v := &verification{Envelope: path}
	plain := make([]signature.PublicKey, len(public))
	for i, key := range public {
		plain[i] = key.PublicKey
	}
	checks, err := envelope.Verify(plain, threshold)
	if err != nil {
		v.fail(fmt.Errorf("%s: %w", path, err))
	}
	signed := map[string]bool{}
	for _, c := range checks {
		line := signatureCheck{KeyID: c.KeyID, Status: string(c.Status)}
		if i := slices.IndexFunc(public, func(k keys.PublicKey) bool { return k.ID() == c.Key.ID() }); i >= 0 && c.Status != signature.Unknown {
			line.KeyID, line.Algorithm, line.File = public[i].ID(), public[i].Algorithm(), public[i].File
			signed[public[i].ID()] = true
		}
		v.Signatures = append(v.Signatures, line)
	}
	for _, key := range public {
		if !signed[key.ID()] {
			v.Signatures = append(v.Signatures, signatureCheck{key.ID(), key.Algorithm(), key.File, "missing"})
		}
	}
	return v, envelope, nil
}

// show prints what came of it, and returns what the command fails with.
func (a *app) showVerification(v *verification, asJSON bool) error {
	v.Verified = v.err == nil
	if asJSON {
		if err := command.WriteJSON(a.Stdout, v); err != nil {
			return err
		}
		return v.err
	}
	for _, s := range v.Signatures {
		a.finding(signatureWords[s.Status], "%s", s.describe())
	}
	if v.Digest != "" && v.err == nil {
		a.finding("same", "the files, %s", v.Digest)
	}
	for _, s := range v.Subjects {
		a.finding(s.Status, "%s", s.describe())
	}
	if v.Run != nil {
		a.finding("run", "%s", v.Run.describe())
	}
	return v.err
}

// finding prints one line: a word in a column of its own, and what it is about.
func (a *app) finding(word, format string, args ...any) {
	fmt.Fprintf(a.Stdout, "%-12s %s\n", word, fmt.Sprintf(format, args...))
}

var signatureWords = map[string]string{"valid": "signed by", "invalid": "wrong", "missing": "missing", "unknown": "not checked"}

func (s *signatureCheck) describe() string {
	if s.Status == "unknown" {
		if s.KeyID == "" {
			return "a signature by a key without a name"
		}
		return fmt.Sprintf("the signature of %q, whose key was not passed", s.KeyID)
	}
	return fmt.Sprintf("%s (%s), %s", s.KeyID, s.Algorithm, s.File)
}
