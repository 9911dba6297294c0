package fakegitlab

import (
	"time"

	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// PipelineView is a pipeline at one moment.
type PipelineView struct {
	ID         int
	Name, Ref  string
	Commit     string
	Changed    bool // the commit holds what is not committed
	State      State
	Created    time.Time
	Stages     []StageView
	Notes      []string
	Cancelable bool
}

// StageView is a stage.
type StageView struct {
	Name string
	Jobs []JobView
}

// JobView is a job with its newest attempt.
type JobView struct {
	Pipeline int
	ID       int64 // of the newest attempt; 0 if there is none
	Attempts int
	Name     string
	Stage    string
	State    State
	Allowed  bool // it failed, and may
	Reason   string
	ExitCode int
	Note     string
	Started  time.Time
	Duration time.Duration
	// What can be done with it.
	Playable, Cancelable, Retryable bool
	// Terminal says that somebody can open its terminal.
	Terminal bool
	// AllowFailure says of a manual job that nothing waits for it.
	AllowFailure bool
	Artifacts    []gitlabtest.Artifact
}

// Pipelines are all pipelines, the newest first.
func (s *Server) Pipelines() []PipelineView {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []PipelineView
	for i := len(s.board.pipelines) - 1; i >= 0; i-- {
		out = append(out, s.board.pipelines[i].view())
	}
	return out
}

// Pipeline is one of them.
func (s *Server) Pipeline(id int) (PipelineView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.board.pipeline(id); p != nil {
		return p.view(), true
	}
	return PipelineView{}, false
}

// Job is the job of an attempt.
func (s *Server) Job(id int64) (JobView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, t := s.board.job(id)
	if j == nil {
		return JobView{}, false
	}
	v := j.view()
	if t != j.last() { // an attempt before the newest one
		v.Playable, v.Cancelable, v.Retryable, v.Terminal, v.Note = false, false, false, false, "this attempt is not the newest one"
		v.ID, v.State = t.id, t.state
		t.into(&v)
	}
	return v, true
}

func (p *Pipeline) view() PipelineView {
	branch, tag := p.ref()
	v := PipelineView{
		ID: p.ID, Name: p.project.Pipeline.Name, Ref: branch + tag, Commit: p.commit, Changed: p.changed, State: p.state(), Created: p.created, Notes: p.notes,
	}
	v.Cancelable = v.State == Running
	for _, j := range p.jobs {
		if n := len(v.Stages); n == 0 || v.Stages[n-1].Name != j.def.Stage {
			v.Stages = append(v.Stages, StageView{Name: j.def.Stage})
		}
		stage := &v.Stages[len(v.Stages)-1]
		stage.Jobs = append(stage.Jobs, j.view())
	}
	return v
}

func (j *Job) view() JobView {
	v := JobView{
		Pipeline: j.pipeline.ID, Attempts: len(j.tries), Name: j.def.Name, Stage: j.def.Stage, State: j.state, Allowed: j.allowed(), Note: j.note,
		AllowFailure: j.def.AllowFailure.Always,
		Playable:     j.state == Manual || j.state == Scheduled,
		Cancelable:   !j.state.Over() && j.state != Canceling,
		Retryable:    (j.state == Success || j.state == Failed || j.state == Canceled) && len(j.tries) > 0,
	}
	if t := j.last(); t != nil {
		v.ID, v.Terminal = t.id, j.state == Running && t.api != nil && t.api.Session() != nil
		t.into(&v)
	}
	return v
}

func (t *try) into(v *JobView) {
	v.Reason, v.ExitCode, v.Started = t.reason, t.exitCode, t.started
	switch {
	case !t.finished.IsZero() && !t.started.IsZero():
		v.Duration = t.finished.Sub(t.started)
	case !t.started.IsZero():
		v.Duration = time.Since(t.started)
	}
	v.Artifacts = t.artifacts()
}
