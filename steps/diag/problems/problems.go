// Package problems writes diagnostics in the formats of other programs: JSON, SARIF for code scanners, and the code quality report that
// GitLab shows in merge requests.
package problems

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
)

// Problem is a diagnostic and how bad it is.
type Problem struct {
	diag.Diagnostic
	// Warning says that the input is accepted but probably a mistake.
	Warning bool
	// Note says that it is less than a warning.
	Note bool
	// Rule names the check that found the problem; "" is ours.
	Rule string
}

// Problems are errors, then warnings.
func Problems(errors, warnings diag.List) []Problem {
	all := make([]Problem, 0, len(errors)+len(warnings))
	for _, d := range errors {
		all = append(all, Problem{Diagnostic: d})
	}
	for _, d := range warnings {
		all = append(all, Problem{Diagnostic: d, Warning: true})
	}
	return all
}

// Sorted are the findings of a list with the levels of their rules, in the list's order.
func Sorted(found diag.List) []Problem {
	all := make([]Problem, len(found))
	for i, d := range found {
		r, _ := rules.Find(d.Code)
		all[i] = Problem{Diagnostic: d, Warning: r.Level == rules.Warning, Note: r.Level == rules.Note}
	}
	return all
}

// severity is how SARIF calls it.
func (p Problem) severity() string {
	switch {
	case p.Note:
		return "note"
	case p.Warning:
		return "warning"
	}
	return "error"
}

// rule names the check that found the problem, for those who sort by it.
func (p Problem) rule() string {
	switch {
	case p.Rule != "":
		return p.Rule
	case p.Code != "":
		return p.Code
	case p.Warning:
		return "suspicious"
	}
	return "invalid"
}

// line is where the problem is; the formats that need a line get the first one where the place is not known.
func (p Problem) line() int { return max(p.Line, 1) }

// JSON writes a list with an object for each problem.
func JSON(w io.Writer, problems []Problem) error {
	type item struct {
		Severity string `json:"severity"`
		diag.Diagnostic
	}
	items := make([]item, len(problems))
	for i, p := range problems {
		items[i] = item{p.severity(), p.Diagnostic}
	}
	return write(w, items)
}

// CodeQuality writes GitLab's code quality problems.
// Source: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
func CodeQuality(w io.Writer, problems []Problem) error {
	type position struct {
		Begin int `json:"begin"`
	}
	type location struct {
		Path  string   `json:"path"`
		Lines position `json:"lines"`
	}
	type item struct {
		Description string   `json:"description"`
		CheckName   string   `json:"check_name"`
		Fingerprint string   `json:"fingerprint"`
		Severity    string   `json:"severity"`
		Location    location `json:"location"`
	}
	items := make([]item, len(problems))
	seen := map[string]int{}
	for i, p := range problems {
		severity := map[string]string{"error": "major", "warning": "minor", "note": "info"}[p.severity()]
		items[i] = item{p.Message, p.rule(), p.fingerprint(seen), severity, location{filepath.ToSlash(p.File), position{p.line()}}}
	}
	return write(w, items)
}

// fingerprint tells a problem from all others, and stays when lines above it come and go. seen counts those that are alike.
func (p Problem) fingerprint(seen map[string]int) string {
	text := p.File + "\x00" + p.Message + "\x00" + p.Source
	seen[text]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", text, seen[text]))
	return hex.EncodeToString(sum[:16])
}

func write(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
