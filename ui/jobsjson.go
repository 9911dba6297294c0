package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/rungci/rung/steps/event"
)

// jobsJSON writes everything as lines of JSON. The events of a run are those of ModeJSON with the name of the job before all else; those
// of jobs have types that begin with "job.", and that of the pipeline is "pipeline.finished".
type jobsJSON struct {
	mu  sync.Mutex
	w   io.Writer
	now func() time.Time
	err error
}

// jobMessage is an event of a job.
type jobMessage struct {
	Job  string    `json:"job,omitempty"`
	Time time.Time `json:"time"`
	Type string    `json:"type"`
	Data any       `json:"data,omitempty"`
}

type said struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (v *jobsJSON) write(job, kind string, data any) {
	line, err := json.Marshal(jobMessage{Job: job, Time: v.now().UTC(), Type: kind, Data: data})
	v.line(line, err)
}

func (v *jobsJSON) line(line []byte, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return
	}
	if err == nil {
		_, err = v.w.Write(append(line, '\n'))
	}
	v.err = err
}

// Run implements JobsView.
func (v *jobsJSON) Run(job string) View { return &jobJSON{v, job} }

// Say implements JobsView.
func (v *jobsJSON) Say(job, text string) { v.write(job, "job.note", said{Message: text}) }

// Warn implements JobsView.
func (v *jobsJSON) Warn(job, text, hint string) { v.write(job, "job.warning", said{text, hint}) }

// Prepare implements JobsView.
func (v *jobsJSON) Prepare(job string, p event.Preparing) { v.write(job, p.Type(), p) }

// Started implements JobsView.
func (v *jobsJSON) Started(job string) { v.write(job, "job.started", nil) }

// Finished implements JobsView.
func (v *jobsJSON) Finished(r JobResult) { v.write(r.Name, "job.finished", r) }

// Suspend implements JobsView.
func (v *jobsJSON) Suspend() (resume func()) { return func() {} }

// Ended implements JobsView.
func (v *jobsJSON) Ended(results []JobResult, took time.Duration) {
	v.write("", "pipeline.finished", struct {
		Jobs     []JobResult   `json:"jobs"`
		Duration time.Duration `json:"duration_ns"`
	}{results, took})
}

// Close implements JobsView.
func (v *jobsJSON) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// jobJSON writes the events of one run.
type jobJSON struct {
	view *jobsJSON
	job  string
}

// Event writes the event.
func (j *jobJSON) Event(e event.Event) {
	line, err := json.Marshal(e)
	name, nameErr := json.Marshal(j.job)
	if err == nil {
		err = nameErr
	}
	if err == nil {
		line = bytes.Join([][]byte{[]byte(`{"job":`), name, []byte(","), line[1:]}, nil)
	}
	j.view.line(line, err)
}

// Close implements View.
func (j *jobJSON) Close() error { return j.view.Close() }
