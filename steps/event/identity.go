package event

import "slices"

// Identity says which job a run executes, in the words of the forge and of the file that defines it. It contains no secrets. Fields
// that are unknown are empty.
type Identity struct {
	// Project is the project's path on its forge: "group/project", "owner/repository".
	Project string `json:"project,omitempty"`
	Ref     string `json:"ref,omitempty"` // the branch or tag, without "refs/heads/"
	Commit  string `json:"commit,omitempty"`
	// Pipeline is the name of the pipeline or workflow, or else its file.
	Pipeline string `json:"pipeline,omitempty"`
	// PipelineID is the same for all jobs of one pipeline, and no other.
	PipelineID string `json:"pipeline_id,omitempty"`
	// Job is unique in the pipeline: "build", "test: [linux]", "deploy / upload".
	Job string `json:"job,omitempty"`
	// Group is the job's name in its file if Job is one of several made from it; "" if it is the same.
	Group string `json:"group,omitempty"`
	Stage string `json:"stage,omitempty"`
	// StageIndex is the position of the stage in the pipeline, from 0.
	StageIndex int `json:"stage_index,omitempty"`
	// Needs are the jobs or groups that had to end first, if the file names them.
	Needs []string `json:"needs,omitempty"`
	// AllowFailure says that the pipeline goes on if the job fails, AllowFailureExitCodes that it does if it fails with one of these.
	AllowFailure          bool  `json:"allow_failure,omitempty"`
	AllowFailureExitCodes []int `json:"allow_failure_exit_codes,omitempty"`
}

// Allows reports whether the job may fail with an exit code; nil is a failure without one. Nil allows nothing.
func (i *Identity) Allows(exitCode *int) bool {
	return i != nil && (i.AllowFailure || exitCode != nil && slices.Contains(i.AllowFailureExitCodes, *exitCode))
}

// Hide returns the identity with each text passed through hide, which removes secrets.
func (i Identity) Hide(hide func(string) string) Identity {
	for _, text := range []*string{&i.Project, &i.Ref, &i.Commit, &i.Pipeline, &i.PipelineID, &i.Job, &i.Group, &i.Stage} {
		*text = hide(*text)
	}
	var needs []string
	for _, need := range i.Needs {
		needs = append(needs, hide(need))
	}
	i.Needs = needs
	return i
}
