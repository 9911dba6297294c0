package fakegitlab

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/rungci/rung/local/gitlab"
	api "github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// State is how far a job or a pipeline is, in GitLab's words.
type State string

// The states. A pipeline is Manual when nothing goes on before somebody starts a job.
const (
	Created   State = "created"
	Waiting   State = "waiting for resource"
	Scheduled State = "scheduled" // a delayed job
	Pending   State = "pending"
	Running   State = "running"
	Canceling State = "canceling"
	Success   State = "success"
	Failed    State = "failed"
	Canceled  State = "canceled"
	Skipped   State = "skipped"
	Manual    State = "manual"
)

// runs reports whether a runner may be at work on a job.
func (s State) runs() bool { return s == Pending || s == Running || s == Canceling }

// Over reports whether nothing more happens by itself.
func (s State) Over() bool {
	return s == Success || s == Failed || s == Canceled || s == Skipped || s == Manual
}

// board is the pipelines, and decides what becomes of their jobs. Server.mu guards it, and all that it leads to.
type board struct {
	sender    *sender
	api       *gitlabtest.Server
	pipelines []*Pipeline
	lastJob   int64
}

// Pipeline is one pipeline.
type Pipeline struct {
	ID      int
	project *gitlab.Project
	created time.Time
	commit  string
	changed bool // the commit is not one of the project's
	jobs    []*Job
	named   []string // manual jobs that start by themselves
	notes   []string
}

// Job is a job of a pipeline.
type Job struct {
	pipeline *Pipeline
	def      *pipeline.Job
	state    State
	played   bool // somebody started it
	tries    []*try
	failures int       // in a row
	startsAt time.Time // of a delayed one
	group    string    // the resource group, expanded
	note     string    // what is to be said of how it ended
}

// try is one attempt of a job: for GitLab, a job of its own.
type try struct {
	id                int64
	token             string
	api               *gitlabtest.Job // nil for a job that could not be sent
	started, finished time.Time
	state             State
	reason            string
	exitCode          int
}

// last is the newest attempt; nil if there was none.
func (j *Job) last() *try {
	if len(j.tries) == 0 {
		return nil
	}
	return j.tries[len(j.tries)-1]
}

// artifacts are what the attempt uploaded.
func (t *try) artifacts() []gitlabtest.Artifact {
	if t.api == nil {
		return nil
	}
	return t.api.Artifacts()
}

// log is its log from an offset on, and its size.
func (t *try) log(offset int) ([]byte, int) {
	if t.api == nil {
		return nil, 0
	}
	return t.api.LogFrom(offset)
}

// ref is the branch or the tag that the pipeline is for.
func (p *Pipeline) ref() (branch, tag string) {
	ref := p.project.Facts.Pipeline
	if ref.Kind == when.Tag {
		return "", ref.Ref
	}
	return ref.Ref, ""
}

// find is the job of a definition; nil if it was not chosen.
func (p *Pipeline) find(def *pipeline.Job) *Job {
	for _, j := range p.jobs {
		if j.def == def {
			return j
		}
	}
	return nil
}

// outcome is a job's state for those that come after it.
func (p *Pipeline) outcome(def *pipeline.Job) pipeline.State {
	j := p.find(def)
	if j == nil {
		return pipeline.Absent
	}
	switch j.state {
	case Success:
		return pipeline.Success
	case Failed:
		if t := j.last(); t != nil {
			return def.Failure(t.exitCode)
		}
		return def.Failure(0)
	case Canceled:
		return pipeline.Canceled
	case Skipped:
		return pipeline.Skipped
	case Manual:
		return pipeline.Held
	}
	return pipeline.Waiting
}

// allowed reports whether a failed job may have failed.
func (j *Job) allowed() bool {
	return j.state == Failed && j.pipeline.outcome(j.def) == pipeline.Warned
}

// follow takes in what runners have reported, and returns whether anything has changed.
func (b *board) follow(p *Pipeline) (changed bool) {
	for _, j := range p.jobs {
		t := j.last()
		if t == nil || !j.state.runs() {
			continue
		}
		r := t.api.Status()
		state := State(r.State)
		if state == j.state {
			continue
		}
		changed = true
		if state == Running && t.started.IsZero() {
			t.started = time.Now()
		}
		j.state, t.state, t.reason, t.exitCode = state, state, r.FailureReason, r.ExitCode
		if state.Over() {
			t.finished = time.Now()
			b.ended(j, t)
		}
	}
	return b.advance(p) || changed
}

// ended does what follows from the end of an attempt.
func (b *board) ended(j *Job, t *try) {
	if t.state != Failed {
		j.failures = 0
		return
	}
	j.failures++
	var exit *int
	if t.reason == api.ReasonScript {
		exit = &t.exitCode
	}
	if j.def.Keywords.Retry.Again(j.failures, t.reason, exit) {
		j.state = Created
		b.enqueue(j)
		return
	}
	if j.pipeline.project.StopsOnFailure() && !j.allowed() {
		b.cancel(j.pipeline)
	}
}

// advance lets jobs begin whose turn has come, and returns whether there were any.
func (b *board) advance(p *Pipeline) (any bool) {
	for changed := true; changed; {
		changed = false
		for _, j := range p.jobs {
			if b.step(p, j) {
				changed, any = true, true
			}
		}
	}
	return any
}

// step decides about one job, and returns whether its state has changed.
func (b *board) step(p *Pipeline, j *Job) bool {
	before := j.state
	switch j.state {
	case Scheduled:
		if time.Now().Before(j.startsAt) && !j.played {
			return false
		}
		b.begin(j)
	case Waiting:
		b.begin(j)
	case Created:
		switch d, _ := p.project.Pipeline.Decide(j.def, p.outcome); {
		case d == pipeline.Skip:
			j.state = Skipped
		case d != pipeline.Run:
		case j.def.When == when.Manual && !j.played && !j.starts():
			j.state = Manual
		case j.def.When == when.Delayed && j.def.StartIn > 0 && !j.played && b.sender.WaitDelayed:
			j.state, j.startsAt = Scheduled, time.Now().Add(j.def.StartIn)
		default:
			j.played = j.played || j.def.When == when.Manual
			b.begin(j)
		}
	}
	return j.state != before
}

// starts reports whether a manual job was asked for when the pipeline was started.
func (j *Job) starts() bool {
	return slices.ContainsFunc(j.pipeline.named, func(name string) bool { return name == "*" || name == j.def.Name || name == j.def.Group })
}

// begin hands a job to runners, unless another one of its resource group is there.
func (b *board) begin(j *Job) {
	if j.def.Keywords.Trigger != nil {
		j.state, j.note = Success, "the pipeline that it triggers is not simulated, and counts as a success"
		return
	}
	if name := j.def.Keywords.ResourceGroup; name != "" {
		if vars, err := j.def.Variables(); err == nil {
			j.group, _ = variable.ExpandText(name, vars.Lookup)
		}
		if b.taken(j) {
			j.state = Waiting
			return
		}
	}
	b.enqueue(j)
}

// taken reports whether a job of the same resource group is at work.
func (b *board) taken(j *Job) bool {
	for _, p := range b.pipelines {
		for _, other := range p.jobs {
			if other != j && other.group == j.group && other.state.runs() {
				return true
			}
		}
	}
	return false
}

// enqueue makes an attempt of the job.
func (b *board) enqueue(j *Job) {
	b.lastJob++
	t := &try{id: b.lastJob, token: "glcbt-" + rand.Text(), state: Pending}
	payload, err := b.sender.payload(j, t)
	j.tries = append(j.tries, t)
	if err != nil {
		t.started, t.finished = time.Now(), time.Now()
		t.reason, j.note = "ci_configuration", err.Error()
		j.state, t.state = Failed, Failed
		return
	}
	j.state, j.note = Pending, ""
	t.api = b.api.Enqueue(*payload)
}

// cancel cancels all of a pipeline that is not over.
func (b *board) cancel(p *Pipeline) {
	for _, j := range p.jobs {
		switch {
		case j.state.runs():
			j.last().api.Cancel()
		case !j.state.Over():
			j.state = Canceled
		}
	}
}

// state is how far the pipeline is.
func (p *Pipeline) state() State {
	count := map[State]int{}
	for _, j := range p.jobs {
		switch {
		case j.allowed():
			count[Success]++
		case j.state == Manual && j.def.AllowFailure.Always:
		default:
			count[j.state]++
		}
	}
	switch {
	case count[Pending]+count[Running]+count[Canceling]+count[Scheduled]+count[Waiting] > 0:
		return Running
	case count[Created] > 0 && count[Manual] == 0:
		return Running
	case count[Manual] > 0:
		return Manual
	case count[Canceled] > 0:
		return Canceled
	case count[Failed] > 0:
		return Failed
	case count[Success] == 0 && count[Skipped] > 0:
		return Skipped
	}
	return Success
}

// nextDelayed is how long it is until a delayed job starts.
func (b *board) nextDelayed() time.Duration {
	next := time.Hour
	for _, p := range b.pipelines {
		for _, j := range p.jobs {
			if j.state == Scheduled {
				next = max(0, min(next, time.Until(j.startsAt)))
			}
		}
	}
	return next
}

// job finds the job with an attempt of a number, and that attempt.
func (b *board) job(id int64) (*Job, *try) {
	for _, p := range b.pipelines {
		for _, j := range p.jobs {
			for _, t := range j.tries {
				if t.id == id {
					return j, t
				}
			}
		}
	}
	return nil, nil
}

// pipeline finds a pipeline.
func (b *board) pipeline(id int) *Pipeline {
	if id < 1 || id > len(b.pipelines) {
		return nil
	}
	return b.pipelines[id-1]
}

// reconsider lets it be decided again about the jobs that were skipped.
func (p *Pipeline) reconsider() {
	for _, j := range p.jobs {
		if j.state == Skipped {
			j.state = Created
		}
	}
}
