package tracefile

import (
	"fmt"

	"github.com/rungci/rung/cmd/step-runner/command/keys"
	"github.com/rungci/rung/publish/provenance"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
)

// Verify checks that the keys have signed what was loaded: the trace, or the bundle that it is in. The envelope is beside the file unless
// it is named. It returns the keys that have signed.
func (l *Loaded) Verify(envelope string, trusted *keys.TrustedKeys) (signers []string, err error) {
	if envelope == "" {
		envelope = l.path + signature.Suffix
	}
	public, threshold, err := trusted.Open()
	if err != nil {
		return nil, err
	}
	e, err := keys.ReadEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	plain := make([]signature.PublicKey, len(public))
	for i, key := range public {
		plain[i] = key.PublicKey
	}
	checks, err := e.Verify(plain, threshold)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envelope, err)
	}
	record, err := Record(envelope, e)
	if err != nil {
		return nil, err
	}
	if err := l.IsSigned(record); err != nil {
		return nil, err
	}
	if err := l.HasSignedLogs(); err != nil {
		return nil, err
	}
	for _, c := range checks {
		if c.Status == signature.Valid {
			signers = append(signers, c.Key.ID())
		}
	}
	return signers, nil
}

// Record is what an envelope says of a run.
func Record(path string, e *signature.Envelope) (*provenance.Record, error) {
	statement, err := e.Statement(provenance.PredicateType)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	record, err := provenance.Read(statement)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return record, nil
}

// IsSigned says whether what was loaded, to the last byte, is what a record is about: the file, or the trace in the
// bundle, whose digests the packages are held against before they are used.
func (l *Loaded) IsSigned(record *provenance.Record) error {
	switch signed := record.Trace.SHA256; {
	case l.SHA256 == "":
		return &signature.VerifyError{Reason: fmt.Sprintf("%s is the record of a run that has not ended, so it cannot have been signed", l.path)}
	case signed != l.SHA256 && signed != l.Document:
		return &signature.VerifyError{Reason: fmt.Sprintf("%s is not the trace that was signed: its digest is sha256:%s, and the signed one sha256:%s", l.path, l.Document, signed)}
	}
	return nil
}

// HasSignedLogs says whether the logs are those that the trace has digests of, wherever they are.
func (l *Loaded) HasSignedLogs() error {
	err := l.Trace.CheckLogs()
	if err == nil {
		return nil
	}
	path := l.path
	if l.Trace.LogsBeside() {
		path += trace.LogSuffix
	}
	return &signature.VerifyError{Reason: fmt.Sprintf("%s: %v", path, err)}
}
