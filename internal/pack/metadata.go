package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// What the statement about an artifact is, in the words of in-toto and SLSA.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	// BuildType prefixes the version: the page describes what GitLab's runner says of a job.
	buildTypeFormat = "https://gitlab.com/gitlab-org/gitlab-runner/-/blob/%s/PROVENANCE.md"
)

// MetadataName returns the name of the file that describes an artifact of that name.
func MetadataName(artifact string) string { return artifact + "-metadata.json" }

// Provenance is what is known of the job that made an artifact.
type Provenance struct {
	Project    string   // the project's address, without user and password
	Commit     string   // in hexadecimal
	Job        string   // its name
	JobID      string   // as GitLab numbers jobs
	Variables  []string // the names of the job's variables; their values are nobody's concern
	RunnerID   string
	RunnerName string
	Executor   string
	System     string // the architecture, as GOARCH has it
	Version    string // of the program that made the artifact
	Started    time.Time
	Finished   time.Time
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	} `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	} `json:"builder"`
	Metadata struct {
		InvocationID string `json:"invocationID"`
		StartedOn    string `json:"startedOn"`
		FinishedOn   string `json:"finishedOn"`
	} `json:"metadata"`
}

// Metadata returns an in-toto statement, as JSON, whose subjects are the regular files among the names, by their SHA-256, and whose
// predicate is SLSA's provenance in the words of GitLab's runner. The same files and job give the same text.
func Metadata(ctx context.Context, dir string, names []string, p Provenance) ([]byte, error) {
	src, err := newSource(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	defer src.close()
	s := statement{Type: StatementType, PredicateType: PredicateType, Subject: []resource{}}
	for {
		it, err := src.read()
		if err != nil {
			return nil, err
		}
		if it == nil {
			break
		}
		if it.file == nil {
			continue
		}
		sum := sha256.New()
		_, err = io.Copy(sum, it.content())
		_ = it.file.Close()
		if err != nil {
			return nil, fmt.Errorf("hashing %q: %w", it.name, err)
		}
		s.Subject = append(s.Subject, resource{Name: it.name, Digest: map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}})
	}
	s.Predicate.BuildDefinition = p.definition()
	run := &s.Predicate.RunDetails
	run.Builder.ID = fmt.Sprintf("%s/-/runners/%s", p.Project, p.RunnerID)
	run.Builder.Version = map[string]string{"gitlab-runner": p.Version}
	run.Metadata.InvocationID = p.JobID
	run.Metadata.StartedOn, run.Metadata.FinishedOn = p.Started.Format(time.RFC3339), p.Finished.Format(time.RFC3339)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err = enc.Encode(s)
	return text.Bytes(), err
}

func (p Provenance) definition() buildDefinition {
	external := map[string]string{}
	for _, name := range p.Variables {
		external[name] = ""
	}
	external["entryPoint"], external["source"] = p.Job, p.Project
	return buildDefinition{
		BuildType:            fmt.Sprintf(buildTypeFormat, p.Version),
		ExternalParameters:   external,
		InternalParameters:   map[string]string{"name": p.RunnerName, "executor": p.Executor, "architecture": p.System, "job": p.JobID},
		ResolvedDependencies: []resource{{URI: p.Project, Digest: map[string]string{"gitCommit": p.Commit}}},
	}
}
