// Package provenance describes the results and the materials of a run as SLSA provenance: an in-toto statement whose subjects are the trace, the outputs and the artifacts, and whose materials are the components that ran.
//
// It only makes and reads statements. Package signature puts them into envelopes and signs them; docs/signatures.md describes
// every field.
package provenance

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

// The identifiers in a statement. The first is SLSA's; the others are ours, and the page that they name describes them.
const (
	PredicateType = "https://slsa.dev/provenance/v1"
	BuildType     = "https://github.com/rungci/rung/blob/main/docs/signatures.md#run-v1"
	Builder       = "https://github.com/rungci/rung/step-runner"
)

const (
	// TraceMediaType marks the subject that is the trace's file.
	TraceMediaType = "application/vnd.rung.trace+json"
	// OutputPrefix begins the names of subjects that are outputs. Their digests are of their canonical JSON.
	OutputPrefix    = "output:"
	outputMediaType = "application/json"
)

// File is a file that a statement is about.
type File struct {
	Name   string // as it is in the statement
	SHA256 string // of its bytes, in hexadecimal
}

// IncompleteError says that a run has not ended, so that nobody can say what came of it.
type IncompleteError struct{}

func (*IncompleteError) Error() string {
	return "the trace is incomplete: the run was killed, or is still going on, and an event log can still grow"
}

// Statement returns what is so about a run. The file is that of the trace, and the artifacts are what the run is said to have
// made, each with a name of its own; what its steps say that they made (trace.Step.Subjects) comes to that. It is an error when a name
// stands for two contents: a *ConflictError when that is so whatever the artifacts are. The same trace and files give the same statement. The error is an *IncompleteError when
// the run has not ended.
func Statement(t *trace.Trace, file File, artifacts []File) (*signature.Statement, error) {
	if t.Incomplete {
		return nil, &IncompleteError{}
	}
	subjects, err := subjects(t, file, artifacts)
	if err != nil {
		return nil, err
	}
	p := predicate{BuildDefinition: definition(t), RunDetails: details(t)}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("writing the provenance: %w", err)
	}
	return &signature.Statement{
		Type:          signature.StatementType,
		Subject:       subjects,
		PredicateType: PredicateType,
		Predicate:     bytes.TrimSpace(text.Bytes()),
	}, nil
}

func subjects(t *trace.Trace, file File, artifacts []File) ([]signature.Resource, error) {
	all := []signature.Resource{{Name: file.Name, Digest: sha256Set(file.SHA256), MediaType: TraceMediaType}}
	taken := map[string]bool{file.Name: true}
	for _, name := range slices.Sorted(maps.Keys(t.Run.Outputs)) {
		if v := t.Run.Outputs[name]; !redacted(v) {
			all = append(all, signature.Resource{Name: OutputPrefix + name, Digest: sha256Set(canonical(v)), MediaType: outputMediaType})
			taken[OutputPrefix+name] = true
		}
	}
	made, err := madeBySteps(t)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for _, f := range made {
		if taken[f.Name] {
			return nil, conflict("a step says that it made %s, which is the name of something else that is to be signed", f.Name)
		}
		taken[f.Name], known[f.Name] = true, f.SHA256
		all = append(all, signature.Resource{Name: f.Name, Digest: sha256Set(f.SHA256)})
	}
	for _, f := range slices.SortedFunc(slices.Values(artifacts), func(a, b File) int { return cmp.Compare(a.Name, b.Name) }) {
		if sum, ok := known[f.Name]; ok && sum == f.SHA256 {
			continue
		} else if ok {
			return nil, fmt.Errorf("%s is not what the run made: its digest is sha256:%s, and the step that made it says sha256:%s", f.Name, f.SHA256, sum)
		}
		if taken[f.Name] {
			return nil, fmt.Errorf("two things that are to be signed have the name %s; sign from a folder where their paths differ", f.Name)
		}
		taken[f.Name] = true
		all = append(all, signature.Resource{Name: f.Name, Digest: sha256Set(f.SHA256)})
	}
	return all, nil
}

// The predicate, as SLSA defines it. What is ours in it is in the parameters and annotations.
type (
	predicate struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string               `json:"buildType"`
		ExternalParameters   parameters           `json:"externalParameters"`
		InternalParameters   map[string]string    `json:"internalParameters"`
		ResolvedDependencies []signature.Resource `json:"resolvedDependencies,omitempty"`
	}
	// parameters are what the run was asked to do. What is sensitive is there by name only.
	parameters struct {
		Source          map[string]string      `json:"source,omitempty"`     // digests of the text that the run was started with
		Definition      map[string]string      `json:"definition,omitempty"` // digests of what it means, in canonical JSON
		Reference       string                 `json:"reference,omitempty"`  // to the one component that was to run
		Inputs          map[string]value.Value `json:"inputs,omitempty"`
		SensitiveInputs []string               `json:"sensitiveInputs,omitempty"`
		Secrets         []string               `json:"secrets,omitempty"`
	}
	runDetails struct {
		Builder    builder              `json:"builder"`
		Metadata   metadata             `json:"metadata"`
		Byproducts []signature.Resource `json:"byproducts,omitempty"`
	}
	builder struct {
		ID           string               `json:"id"`
		Version      map[string]string    `json:"version,omitempty"`
		Dependencies []signature.Resource `json:"builderDependencies,omitempty"`
	}
	metadata struct {
		InvocationID string    `json:"invocationId"`
		StartedOn    time.Time `json:"startedOn"`
		FinishedOn   time.Time `json:"finishedOn"`
	}
)

func definition(t *trace.Trace) buildDefinition {
	d := buildDefinition{
		BuildType:            BuildType,
		InternalParameters:   map[string]string{"os": t.Runtime.OS, "arch": t.Runtime.Arch},
		ResolvedDependencies: dependencies(t),
	}
	p := &d.ExternalParameters
	if t.Run.Source != "" {
		p.Source = sha256Set(sum([]byte(t.Run.Source)))
	}
	if text, err := json.Marshal(t.Run.Component); err == nil && t.Run.Component != nil {
		if v, err := value.ParseJSON(text); err == nil {
			p.Definition = sha256Set(canonical(v))
		}
	}
	p.setInputs(t.Run.Inputs)
	if step := onlyReference(t); step != nil {
		p.Reference = step.Ref
		p.setInputs(step.Inputs)
	}
	p.Secrets = slices.Sorted(maps.Keys(t.Run.Secrets))
	return d
}

// onlyReference returns the step of a run that is nothing but one component, called with the inputs of the command line; else
// nil.
func onlyReference(t *trace.Trace) *trace.Step {
	c := t.Run.Component
	if t.Run.Source != "" || c == nil || !c.Spec.DelegateOutputs || len(c.Definition.Steps) != 1 || len(t.Steps) != 1 {
		return nil
	}
	return t.Steps[0]
}

// setInputs sets the inputs, if there are any: the values of those that nobody needs to hide, and the names of the others.
func (p *parameters) setInputs(inputs map[string]value.Value) {
	for name, v := range inputs {
		if redacted(v) {
			p.SensitiveInputs = append(p.SensitiveInputs, name)
			continue
		}
		if p.Inputs == nil {
			p.Inputs = map[string]value.Value{}
		}
		p.Inputs[name] = v
	}
	slices.Sort(p.SensitiveInputs)
}

// programName is what the statement calls the program that ran the steps.
const programName = "step-runner"

func details(t *trace.Trace) runDetails {
	program := signature.Resource{Name: programName}
	if digest, ok := strings.CutPrefix(t.Runtime.Digest, "sha256:"); ok {
		program.Digest = sha256Set(digest)
	}
	result := map[string]any{"status": string(t.Run.Status)}
	if t.Run.ExitCode != nil {
		result["exitCode"] = *t.Run.ExitCode
	}
	return runDetails{
		Builder: builder{
			ID:           Builder,
			Version:      map[string]string{programName: t.Runtime.Version},
			Dependencies: []signature.Resource{program},
		},
		Metadata: metadata{
			InvocationID: t.Run.ID,
			StartedOn:    t.Run.Started.UTC(),
			FinishedOn:   t.Run.Started.Add(t.Run.Duration).UTC(),
		},
		Byproducts: []signature.Resource{{Name: resultName, Annotations: result}},
	}
}

// resultName is the byproduct that says how the run ended.
const resultName = "result"

// redacted reports whether a part of a recorded value was sensitive: a digest stands for it, and no digest that everybody can
// compute may be made of the rest.
func redacted(v value.Value) bool {
	if _, ok := event.IsRedacted(v); ok || v.Sensitive() {
		return true
	}
	for _, item := range v.Items() {
		if redacted(item) {
			return true
		}
	}
	for _, field := range v.Fields() {
		if redacted(field) {
			return true
		}
	}
	return false
}

// canonical returns the SHA-256 of a value's canonical JSON: no white space, keys sorted bytewise.
func canonical(v value.Value) string { return sum(v.AppendJSON(nil)) }

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func sha256Set(sum string) map[string]string { return map[string]string{"sha256": sum} }
