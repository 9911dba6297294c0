package problems

import (
	"io"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/steps/diag/rules"
)

// The parts of SARIF 2.1.0 that are written. Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string        `json:"id"`
		ShortDescription *sarifMessage `json:"shortDescription,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
		// Fingerprints let scanners know a problem again.
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
)

// SARIF writes a log of SARIF 2.1.0. program and version are those of what found the problems.
func SARIF(w io.Writer, problems []Problem, program, version string) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: program, Version: version, Rules: []sarifRule{
		{"invalid", &sarifMessage{"The file is not what GitLab, or " + program + ", accepts."}},
		{"suspicious", &sarifMessage{"The file is accepted but probably not what its author meant."}},
	}}
	if slices.ContainsFunc(problems, func(p Problem) bool { return p.Rule != "" || p.Code != "" }) {
		run.Tool.Driver.Rules = rulesOf(problems)
	}
	seen := map[string]int{}
	for _, p := range problems {
		text := p.Message
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		result := sarifResult{
			RuleID: p.rule(), Level: p.severity(), Message: sarifMessage{text},
			Fingerprints: map[string]string{"problem/v1": p.fingerprint(seen)},
		}
		if p.File != "" {
			var at sarifLocation
			at.Physical.Artifact.URI = filepath.ToSlash(p.File)
			if p.Line > 0 {
				at.Physical.Region = &sarifRegion{StartLine: p.Line, StartColumn: p.Column, EndColumn: p.Column + p.Length}
			}
			result.Locations = []sarifLocation{at}
		}
		run.Results = append(run.Results, result)
	}
	return write(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// rulesOf are the checks that found the problems.
func rulesOf(problems []Problem) []sarifRule {
	var out []sarifRule
	known := map[string]bool{}
	for _, p := range problems {
		if !known[p.rule()] {
			known[p.rule()] = true
			one := sarifRule{ID: p.rule()}
			if r, ok := rules.Find(one.ID); ok && p.Rule == "" {
				one.ShortDescription = &sarifMessage{r.Short}
			}
			out = append(out, one)
		}
	}
	return out
}
