package signature

import (
	"encoding/json"
)

const (
	// ComponentFile is the name of the envelope in a component's folder.
	ComponentFile = "component" + Suffix
	// ComponentPredicate is the predicate type of signed components. It says: whoever signs stands for these files.
	ComponentPredicate = "https://github.com/rungci/rung/blob/main/docs/signatures.md#component-v1"
	// componentName is the subject's name. It is not that of the folder, which differs from place to place: all who sign the
	// same files sign the same statement.
	componentName = "component"
)

// ComponentStatement returns what is signed of a component with the content digest "sha256:…" of its folder.
func ComponentStatement(digest string) (*Statement, error) {
	sum, err := hexSHA256(digest)
	if err != nil {
		return nil, err
	}
	return &Statement{
		Type:          StatementType,
		Subject:       []Resource{{Name: componentName, Digest: map[string]string{ContentDigest: sum}}},
		PredicateType: ComponentPredicate,
		Predicate:     json.RawMessage("{}"),
	}, nil
}

// CoversComponent checks that the envelope is about the component with the content digest "sha256:…". It checks no
// signature: call Verify first. The error is a *FormatError or, when the digest is another, a *VerifyError.
func (e *Envelope) CoversComponent(digest string) error {
	s, err := e.Statement(ComponentPredicate)
	if err != nil {
		return err
	}
	sum, err := hexSHA256(digest)
	if err != nil {
		return err
	}
	if len(s.Subject) != 1 || s.Subject[0].Digest[ContentDigest] == "" {
		return formatError("the signed statement is not about one component")
	}
	if signed := s.Subject[0].Digest[ContentDigest]; signed != sum {
		return verifyError("the files are not those that were signed: their digest is sha256:%s, and the signed one sha256:%s", sum, signed)
	}
	return nil
}
