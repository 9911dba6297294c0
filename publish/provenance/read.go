package provenance

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/steps/signature"
)

// Record is what a statement says.
type Record struct {
	Trace      File
	Outputs    []File // their names do not have OutputPrefix
	Artifacts  []File
	Components []signature.Resource // the materials

	RunID             string
	Status            string // "success", "failure", "cancelled"
	Version           string // of step-runner
	Started, Finished time.Time
}

// Read reads a statement of this package. It checks no signature. The error is a *signature.FormatError.
func Read(s *signature.Statement) (*Record, error) {
	var p predicate
	if err := json.Unmarshal(s.Predicate, &p); err != nil {
		return nil, broken("its predicate cannot be read: %v", err)
	}
	if p.BuildDefinition.BuildType != BuildType {
		return nil, broken("it is about a build of the type %q, and a run of steps has the type %q", p.BuildDefinition.BuildType, BuildType)
	}
	r := &Record{
		Components: p.BuildDefinition.ResolvedDependencies,
		RunID:      p.RunDetails.Metadata.InvocationID,
		Version:    p.RunDetails.Builder.Version[programName],
		Started:    p.RunDetails.Metadata.StartedOn,
		Finished:   p.RunDetails.Metadata.FinishedOn,
	}
	for _, b := range p.RunDetails.Byproducts {
		if status, ok := b.Annotations["status"].(string); ok && b.Name == resultName {
			r.Status = status
		}
	}
	for _, subject := range s.Subject {
		if err := r.add(subject); err != nil {
			return nil, err
		}
	}
	if r.Trace.SHA256 == "" {
		return nil, broken("none of its subjects is a trace")
	}
	return r, nil
}

func (r *Record) add(subject signature.Resource) error {
	f := File{Name: subject.Name, SHA256: subject.Digest["sha256"]}
	output, isOutput := strings.CutPrefix(f.Name, OutputPrefix)
	switch {
	case len(f.SHA256) != 64:
		return broken("its subject %q has no SHA-256", f.Name)
	case subject.MediaType == TraceMediaType && r.Trace.SHA256 != "":
		return broken("it is about two traces, %q and %q", r.Trace.Name, f.Name)
	case subject.MediaType == TraceMediaType:
		r.Trace = f
	case isOutput && subject.MediaType == outputMediaType:
		r.Outputs = append(r.Outputs, File{output, f.SHA256})
	default:
		r.Artifacts = append(r.Artifacts, f)
	}
	return nil
}

func broken(format string, args ...any) error {
	return &signature.FormatError{Reason: "the signed statement is not provenance of a run: " + fmt.Sprintf(format, args...)}
}
