// Package pipeline decides which jobs of a definition run, as GitLab does when it creates a pipeline: whether there is one, which jobs are in
// it and why, what they become through parallel and matrix, what each waits for, and which variables it gets.
//
//	keyword.Definition + Facts ──> New ──> Pipeline: jobs in the order of their stages, with verdicts, needs and variables
//
// It runs nothing and reads no files: what it needs to know is in Facts.
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
	// JobVariables returns what is predefined for one job, such as CI_JOB_NAME; CI_NODE_INDEX and CI_NODE_TOTAL are there without
	// it. It may be nil. Rules ask for it as well, before it is decided about the job: its verdict and needs are not there yet,
	// and When is what the job itself says. It must not ask for the job's Variables, which ask for it.
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
	// Excluded are those that are not, and their Reason says why. A job of which no copy is part of the pipeline is listed here once,
	// under its own name.
	Excluded []*Job
	// Warnings are what is probably not meant.
	Warnings diag.List

	none   string          // why there are no jobs
	names  map[string]*Job // every job and copy, excluded ones too
	groups map[string][]*Job
	starts []int // of every stage, the index of its first job; and at the end the number of jobs
}

// Job is a job of a pipeline: one of its copies, where it is parallel.
type Job struct {
	// Name is unique in the pipeline: "test", "test 1/3", "test: [linux, 1.26]".
	Name string
	// Group is the name in the file.
	Group    string
	Keywords *keyword.Job
	Stage    string
	// StageIndex counts the pipeline's stages; it is -1 for a job that is not part of the pipeline.
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

	// Needs are the jobs it waits for. Nil waits for all stages before its own; an empty list waits for nothing.
	Needs []Edge
	// Upstream are needs of jobs of other pipelines and projects.
	Upstream []keyword.Need
	// Artifacts are the jobs whose artifacts it gets, in order: only such that make artifacts.
	Artifacts []*Job

	// origin is where its variables are from; Variables merges them.
	origin *origin
	index  int    // in the pipeline's Jobs
	why    string // why it is not part of the pipeline, where the verdict is not the reason
}

// Reason says why there are no jobs, for people: one line. It is empty when there are jobs.
func (p *Pipeline) Reason() string {
	if len(p.Jobs) > 0 {
		return ""
	}
	if !p.Verdict.Added() {
		return "`workflow: rules` keep it from running: " + p.Verdict.Reason()
	}
	return p.none
}

// Job returns the job with a name, or nil. A job with copies has no name of its own but those of its copies.
func (p *Pipeline) Job(name string) *Job {
	if j := p.names[name]; j != nil && j.StageIndex >= 0 {
		return j
	}
	return nil
}

// Group returns the jobs that a job of the file became: itself, or its copies, as far as they are part of the pipeline.
func (p *Pipeline) Group(name string) []*Job {
	var jobs []*Job
	for _, j := range p.groups[name] {
		if j.StageIndex >= 0 {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Predecessors returns the jobs that must have ended before it can be decided about a job: those that it needs, or all of the
// stages before its own. The slice must not be changed.
func (p *Pipeline) Predecessors(j *Job) []*Job {
	if j.Needs == nil {
		if j.StageIndex < 0 {
			return nil
		}
		return p.Jobs[:p.starts[j.StageIndex]:p.starts[j.StageIndex]]
	}
	jobs := make([]*Job, len(j.Needs))
	for i, e := range j.Needs {
		jobs[i] = e.Job
	}
	return jobs
}

// Reason says why the job is part of the pipeline, or is not, for people: one line.
func (j *Job) Reason() string {
	if j.why != "" {
		return j.why
	}
	return j.Verdict.Reason()
}

// Edge is a job that another one needs.
type Edge struct {
	Job       *Job
	Artifacts bool
}
