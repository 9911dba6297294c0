// Package pipeline decides what of a definition runs, as GitLab does when it makes a pipeline: whether there is one, which jobs are in
// it and why, what they become by parallel and matrix, what each waits for, and which variables it gets.
//
//	keyword.Definition + Facts ──> New ──> Pipeline: jobs in the order of their stages, with verdicts, needs and variables
//
// It runs nothing and reads no files; Facts tell it what it has to know.
package pipeline

import (
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Facts are what a pipeline is made for.
type Facts struct {
	// Ref says what it runs for: its kind, the branch or tag, and what started it.
	Ref when.Pipeline
	// Variables are those from outside of the file, by their levels: predefined ones, the project's, those given by hand.
	Variables []variable.Layer
	// JobVariables returns what is predefined for one job, such as CI_JOB_NAME. It may be nil.
	JobVariables func(*Job) []variable.Variable
	// Changed and Exists answer for files, with variables in the patterns expanded. Nil ones say yes, as where there is nothing to
	// compare with.
	Changed func(when.Changes) (when.Answer, error)
	Exists  func(when.Exists) (when.Answer, error)
}

// Pipeline is what runs.
type Pipeline struct {
	// Name is that of the workflow, expanded; empty when there is none.
	Name string
	// Verdict is that of `workflow: rules`; when it does not let the pipeline be, there are no jobs.
	Verdict when.Verdict
	// Stages are those that have jobs, in order.
	Stages []string
	// Jobs are those that are part of the pipeline, in the order of stages and then of the file.
	Jobs []*Job
	// Excluded are those that are not, with the verdict that says why. A job of a matrix stands here once.
	Excluded []*Job
	// Warnings are what is probably not meant.
	Warnings diag.List
}

// Job is a job of a pipeline: one of its copies, where it is parallel.
type Job struct {
	// Name is unique in the pipeline: "test", "test 1/3", "test: [linux, 1.26]".
	Name string
	// Group is the name in the file.
	Group    string
	Keywords *keyword.Job
	Stage    string
	// StageIndex counts the pipeline's stages.
	StageIndex int

	Verdict       when.Verdict
	When          when.When // what it comes to: on_success, on_failure, always, manual or delayed
	StartIn       time.Duration
	AllowFailure  keyword.AllowFailure
	Interruptible bool

	// NodeIndex and NodeTotal are CI_NODE_INDEX, from 1, and CI_NODE_TOTAL; 0 and 1 without parallel.
	NodeIndex, NodeTotal int
	// Matrix are the variables of its entry, in order.
	Matrix []variable.Variable

	// Needs are the jobs it waits for, whatever their stage. Nil waits for all stages before its own.
	Needs []Edge
	// Upstream are needs of jobs of other pipelines and projects.
	Upstream []keyword.Need
	// Artifacts are the jobs whose artifacts it gets, in order.
	Artifacts []*Job

	// layers are the levels of its variables; Variables merges them.
	layers []variable.Layer
}

// Edge is a job that another one needs.
type Edge struct {
	Job       *Job
	Artifacts bool
}
