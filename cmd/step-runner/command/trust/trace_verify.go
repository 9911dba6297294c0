package trust

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/keys"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/publish/provenance"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
)

// traceVerifying is what trace verify was told.
type traceVerifying struct {
	trusted   keys.TrustedKeys
	artifacts []string
	envelope  string
}

func (a *app) traceVerifyCommand() *cobra.Command {
	var o traceVerifying
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify --key KEY TRACE",
		Short: "Verify the signatures of a trace",
		Long: `verify checks the signatures in TRACE` + signature.Suffix + `: that every given key has signed, and that the trace and the given artifacts are
unchanged. It prints a line for each result. Artifacts that are not given are not checked.

` + keys.PublicKeysHelp + `

` + signaturesExitCodesHelp,
		Example: `  step-runner trace verify --key ci.pub trace.json
  step-runner trace verify --key ci.pub --artifact dist/app.tar.gz trace.json
  step-runner trace verify --key ci.pub --json trace.json | jq .run`,
		Args: command.Arguments(1, 1, "the trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := verifyTrace(args[0], &o)
			if err != nil {
				return err
			}
			return a.showVerification(v, asJSON)
		},
	}
	f := cmd.Flags()
	o.trusted.Declare(f)
	f.StringArrayVar(&o.artifacts, "artifact", nil, "verify the artifact `FILE`; can be repeated")
	f.StringVar(&o.envelope, "envelope", "", "read the signatures from `FILE` instead of TRACE"+signature.Suffix)
	f.BoolVar(&asJSON, "json", false, "print what was found as JSON")
	return cmd
}

// What can be found of a subject.
const (
	subjectSame      = "same"
	subjectDifferent = "different"
	subjectNotSigned = "not signed"
	subjectUnchecked = "not checked" // an artifact that was not given
	subjectCovered   = "covered"     // an output, which is in the trace
)

// subjectCheck is what is known of something that was signed, or should have been.
type subjectCheck struct {
	Kind   string `json:"kind"` // trace, log, output, artifact
	Name   string `json:"name"` // as it was signed
	File   string `json:"file,omitempty"`
	SHA256 string `json:"sha256"` // as it was signed; as it is where it was not
	Status string `json:"status"`
}

func (s *subjectCheck) describe() string {
	text := s.Kind + " " + s.Name
	if s.File != "" && s.File != s.Name {
		text += " (" + s.File + ")"
	}
	if s.Status == subjectUnchecked {
		text += ": to check it, name it with --artifact"
	}
	return text
}

// signedRun is what the statement says of the run.
type signedRun struct {
	ID         string               `json:"id"`
	Status     string               `json:"status"`
	Version    string               `json:"version"`
	Started    time.Time            `json:"started"`
	Finished   time.Time            `json:"finished"`
	Components []signature.Resource `json:"components"`
}

func (r *signedRun) describe() string {
	return fmt.Sprintf("%s, %s, %s, %s, by step-runner %s", r.ID, r.Status, r.Started.Format(time.RFC3339),
		quantity.Count(len(r.Components), "component"), r.Version)
}

func verifyTrace(path string, o *traceVerifying) (*verification, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	var err error
	given := make([]provenance.File, len(o.artifacts))
	for i, artifact := range o.artifacts {
		if given[i], err = digestFile(artifact); err != nil {
			return nil, err
		}
	}
	at := o.envelope
	if at == "" {
		at = path + signature.Suffix
	}
	v, envelope, err := verifyEnvelope(at, &o.trusted)
	if err != nil || v.err != nil {
		return v, err // what nobody known has signed is not even read
	}
	record, err := tracefile.Record(at, envelope)
	if err != nil {
		return nil, err
	}
	l, err := tracefile.Load(path)
	if err != nil {
		return nil, err
	}
	v.Run = &signedRun{record.RunID, record.Status, record.Version, record.Started, record.Finished, record.Components}
	v.trace(path, l, record)
	for _, output := range record.Outputs {
		if v.err == nil { // they are in the trace
			v.Subjects = append(v.Subjects, subjectCheck{"output", output.Name, "", output.SHA256, subjectCovered})
		}
	}
	v.artifacts(record.Artifacts, o.artifacts, given)
	return v, nil
}

// trace holds what was loaded, with its logs, against what was signed.
func (v *verification) trace(path string, l *tracefile.Loaded, record *provenance.Record) {
	c := subjectCheck{"trace", record.Trace.Name, path, record.Trace.SHA256, subjectSame}
	if err := l.IsSigned(record); err != nil {
		c.Status = subjectDifferent
		v.fail(err)
	}
	v.Subjects = append(v.Subjects, c)
	if v.err != nil {
		return
	}
	log := path + trace.LogSuffix
	c = subjectCheck{Kind: "log", Name: filepath.Base(log), File: log, Status: subjectSame}
	if err := l.HasSignedLogs(); err != nil {
		c.Status = subjectDifferent
		v.fail(err)
	} else if !l.Trace.LogsBeside() {
		return // they are part of the trace
	}
	v.Subjects = append(v.Subjects, c)
}

// artifacts compares the artifacts that were given with those that were signed: by name, else by content.
func (v *verification) artifacts(signed []provenance.File, paths []string, given []provenance.File) {
	checked := map[string]bool{}
	for i, file := range given {
		at := slices.IndexFunc(signed, func(s provenance.File) bool { return s.Name == file.Name })
		if at < 0 {
			at = slices.IndexFunc(signed, func(s provenance.File) bool { return s.SHA256 == file.SHA256 })
		}
		if at < 0 {
			v.Subjects = append(v.Subjects, subjectCheck{"artifact", file.Name, paths[i], file.SHA256, subjectNotSigned})
			v.fail(&signature.VerifyError{Reason: fmt.Sprintf("%s: no signature says that the run made %s", v.Envelope, paths[i])})
			continue
		}
		checked[signed[at].Name] = true
		v.compare("artifact", paths[i], signed[at], file)
	}
	for _, s := range signed {
		if !checked[s.Name] {
			v.Subjects = append(v.Subjects, subjectCheck{"artifact", s.Name, "", s.SHA256, subjectUnchecked})
		}
	}
}

func (v *verification) compare(kind, path string, signed, is provenance.File) {
	c := subjectCheck{kind, signed.Name, path, signed.SHA256, subjectSame}
	if signed.SHA256 != is.SHA256 {
		c.Status = subjectDifferent
		v.fail(&signature.VerifyError{Reason: fmt.Sprintf("%s is not the %s that was signed: its digest is sha256:%s, and the signed one sha256:%s", path, kind, is.SHA256, signed.SHA256)})
	}
	v.Subjects = append(v.Subjects, c)
}
