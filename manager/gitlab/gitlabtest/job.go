package gitlabtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/manager/gitlab"
)

// Job is a job of the server. Its methods are safe for concurrent use.
type Job struct {
	server  *Server
	payload gitlab.Job

	state         gitlab.State
	handed        bool // a runner has it; with the two-phase commit it is pending until that runner says that it runs
	manager       string
	log           []byte
	logType       string // "" or "debug"
	failureReason string
	exitCode      int
	artifacts     []Artifact
	watched       bool
	migrations    int // answers with 202 that are left
	updates       []gitlab.State
	handedOut     time.Time
	finished      time.Time
}

// Artifact is a file that a job uploaded.
type Artifact struct {
	Type, Format, ExpireIn, Filename string
	Data                             []byte
}

// Enqueue adds a job to the queue. Its ID and token are made by the server if they are not set.
func (s *Server) Enqueue(payload gitlab.Job) *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	if payload.ID == 0 {
		payload.ID = s.lastID
	}
	if payload.Token == "" {
		payload.Token = fmt.Sprintf("glcbt-64_%020d", payload.ID)
	}
	payload.Info.ID = payload.ID
	if payload.Info.RunningOnInstanceRunners == "" {
		payload.Info.RunningOnInstanceRunners = "0"
	}
	j := &Job{server: s, payload: payload, state: gitlab.Pending, migrations: s.opts.Migrations}
	s.jobs[payload.ID] = j
	s.queue = append(s.queue, j)
	s.version++
	s.change()
	return j
}

// Ref identifies the job to the runner API.
func (j *Job) Ref() gitlab.Ref { return gitlab.Ref{ID: j.payload.ID, Token: j.payload.Token} }

// Result is how a job is, or how it ended.
type Result struct {
	State         gitlab.State
	FailureReason string
	ExitCode      int
	Log           string
	Debug         bool // the log was sent as one that not everybody may see
	Artifacts     []Artifact
	// Updates are the states that the runner reported, in order.
	Updates []gitlab.State
	Manager string // the system ID of who has it
	// Took is the time from the hand-out to the final state; 0 before that.
	Took time.Duration
}

// Result is how the job is now.
func (j *Job) Result() Result {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	r := Result{
		State: j.state, FailureReason: j.failureReason, ExitCode: j.exitCode, Log: string(j.log), Debug: j.logType == "debug",
		Artifacts: slices.Clone(j.artifacts), Updates: slices.Clone(j.updates), Manager: j.manager,
	}
	if !j.finished.IsZero() {
		r.Took = j.finished.Sub(j.handedOut)
	}
	return r
}

// Wait waits until the job has ended.
func (j *Job) Wait(ctx context.Context) (Result, error) {
	err := j.server.until(ctx, j.ended)
	return j.Result(), err
}

// WaitLog waits until the log holds text.
func (j *Job) WaitLog(ctx context.Context, text string) error {
	return j.server.until(ctx, func() bool { return bytes.Contains(j.log, []byte(text)) })
}

// ended reports whether nothing more can happen to the job. The caller holds the lock.
func (j *Job) ended() bool {
	return j.state == gitlab.Success || j.state == gitlab.Failed || j.state == gitlab.Canceled
}

// Cancel cancels the job as the button does: gracefully if its runner can.
func (j *Job) Cancel() {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	switch {
	case j.ended():
		return
	case j.state == gitlab.Running && j.cancelsGracefully():
		j.state = gitlab.Canceling
	default:
		j.end(gitlab.Canceled)
	}
	j.server.change()
}

// Abort ends the job at once, as erasing or a forced cancel does.
func (j *Job) Abort() {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	j.end(gitlab.Canceled)
	j.server.change()
}

// Watch says whether somebody looks at the job's page.
func (j *Job) Watch(watched bool) {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	j.watched = watched
}

func (j *Job) end(state gitlab.State) {
	if j.ended() {
		return
	}
	j.state, j.finished = state, time.Now()
	j.server.queue = slices.DeleteFunc(j.server.queue, func(q *Job) bool { return q == j })
}

func (j *Job) cancelsGracefully() bool {
	for _, r := range j.server.runners {
		if info, ok := r.Managers[j.manager]; ok {
			return info.Features.CancelGracefully
		}
	}
	return false
}

func (s *Server) requestJob(w http.ResponseWriter, r *http.Request) {
	known, req := s.runner(w, r)
	if known == nil {
		return
	}
	known.Managers[req.SystemID] = req.Info
	current := strconv.FormatInt(int64(s.version), 16)
	if len(s.queue) == 0 && s.opts.LongPoll > 0 && req.LastUpdate == current {
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.Context(), s.opts.LongPoll)
		_ = s.until(ctx, func() bool { return len(s.queue) > 0 })
		cancel()
		s.mu.Lock()
		current = strconv.FormatInt(int64(s.version), 16)
	}
	defer s.mu.Unlock()
	if len(s.queue) == 0 || known.Paused || !req.Info.Features.Refspecs || r.Context().Err() != nil {
		w.Header().Set("X-GitLab-Last-Update", current)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	j := s.queue[0]
	s.queue = s.queue[1:]
	j.handed, j.manager, j.handedOut = true, req.SystemID, time.Now()
	if !req.Info.Features.TwoPhaseJobCommit {
		j.state = gitlab.Running
	}
	s.change()
	answerJSON(w, http.StatusCreated, j.payload)
}

// job finds the job of a request of its runner, and answers by itself, and returns nil, if it is not that of a running job. It returns with
// the lock held otherwise.
func (s *Server) job(w http.ResponseWriter, r *http.Request, token string) *Job {
	s.mu.Lock()
	j := s.jobs[number(r)]
	if j == nil || j.payload.Token != token || !j.handed {
		s.mu.Unlock()
		refuse(w, http.StatusForbidden, "403 Forbidden")
		return nil
	}
	w.Header().Set("Job-Status", string(j.state))
	if j.ended() {
		s.mu.Unlock()
		refuse(w, http.StatusForbidden, "403 Forbidden - Job is not running")
		return nil
	}
	return j
}

func (s *Server) updateJob(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Token         string        `json:"token"`
		State         gitlab.State  `json:"state"`
		FailureReason string        `json:"failure_reason"`
		ExitCode      int           `json:"exit_code"`
		Output        gitlab.Output `json:"output"`
	}
	if !readJSON(w, r, &req) {
		return
	}
	j := s.job(w, r, req.Token)
	if j == nil {
		return
	}
	defer s.mu.Unlock()
	if r.Header.Get("JOB-TOKEN") != req.Token {
		s.violation("PUT of job %d: the header JOB-TOKEN is not the token of the body", j.payload.ID)
	}
	switch req.State {
	case gitlab.Pending:
	case gitlab.Running:
		if j.state == gitlab.Pending {
			j.state = gitlab.Running
		}
	case gitlab.Success, gitlab.Failed:
		if j.state == gitlab.Pending {
			s.violation("job %d ended before it was said to run", j.payload.ID)
		}
		if req.Output.Checksum != "" {
			if want := fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE(j.log)); req.Output.Checksum != want || req.Output.Bytesize != int64(len(j.log)) {
				s.violation("the log of job %d has %d bytes and checksum %s, not %d and %s", j.payload.ID, len(j.log), want, req.Output.Bytesize, req.Output.Checksum)
			}
			if j.migrations > 0 {
				j.migrations--
				w.Header().Set("X-GitLab-Trace-Update-Interval", "1")
				answerText(w, http.StatusAccepted, "202")
				return
			}
		}
		if j.state == gitlab.Canceling {
			req.State = gitlab.Canceled
		}
		j.failureReason, j.exitCode = req.FailureReason, req.ExitCode
		if req.State == gitlab.Failed && req.FailureReason == "" {
			j.failureReason = "unknown_failure"
		}
		j.end(req.State)
	default:
		refuse(w, http.StatusBadRequest, "state does not have a valid value")
		return
	}
	j.updates = append(j.updates, req.State)
	s.change()
	answerText(w, http.StatusOK, strconv.Itoa(http.StatusOK))
}

func (s *Server) patchTrace(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "text/plain" { // GitLab takes an empty one for JSON
		refuse(w, http.StatusUnsupportedMediaType, "the provided content-type is not supported")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	j := s.job(w, r, r.Header.Get("JOB-TOKEN"))
	if j == nil {
		return
	}
	defer s.mu.Unlock()
	from, to, ok := strings.Cut(r.Header.Get("Content-Range"), "-")
	start, err1 := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	have := int64(len(j.log))
	switch {
	case !ok || err1 != nil || err2 != nil:
		refuse(w, http.StatusBadRequest, "Missing header Content-Range")
		return
	case j.state == gitlab.Pending:
		s.violation("a part of the log of job %d came before it was said to run", j.payload.ID)
	case len(body) == 0:
		s.violation("an empty part of the log of job %d", j.payload.ID)
	}
	if end-start+1 != int64(len(body)) {
		s.violation("a part of the log of job %d has %d bytes and Content-Range %d-%d", j.payload.ID, len(body), start, end)
	}
	if start != have {
		w.Header().Del("Job-Status")
		w.Header().Set("Range", fmt.Sprintf("0-%d", have))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if have+int64(len(body)) > s.opts.MaxLog {
		j.failureReason = "trace_size_exceeded"
		j.end(gitlab.Failed)
		s.change()
		w.Header().Set("Job-Status", string(j.state))
		refuse(w, http.StatusForbidden, "403 Forbidden - Job log is too large")
		return
	}
	j.log = append(j.log, body...)
	if r.URL.Query().Get("debug_trace") == "true" {
		j.logType = "debug"
	}
	s.change()
	interval := s.opts.Unwatched
	if j.watched {
		interval = s.opts.Watched
	}
	w.Header().Set("X-GitLab-Trace-Update-Interval", strconv.Itoa(interval))
	w.Header().Set("Range", fmt.Sprintf("0-%d", len(j.log)))
	answerText(w, http.StatusAccepted, "202")
}

func (s *Server) uploadArtifacts(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(16 << 20); err != nil {
		refuse(w, http.StatusBadRequest, "file is missing")
		return
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	file, header, err := r.FormFile("file")
	if err != nil {
		refuse(w, http.StatusBadRequest, "file is missing")
		return
	}
	data, err := io.ReadAll(file)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	j := s.job(w, r, r.Header.Get("JOB-TOKEN"))
	if j == nil {
		return
	}
	defer s.mu.Unlock()
	j.artifacts = append(j.artifacts, Artifact{
		Type: r.FormValue("artifact_type"), Format: r.FormValue("artifact_format"), ExpireIn: r.FormValue("expire_in"), Filename: header.Filename, Data: data,
	})
	s.change()
	answerJSON(w, http.StatusCreated, json.RawMessage("201"))
}

func (s *Server) downloadArtifacts(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[number(r)]
	if j == nil || j.payload.Token != r.Header.Get("JOB-TOKEN") {
		refuse(w, http.StatusForbidden, "403 Forbidden")
		return
	}
	for _, a := range j.artifacts {
		if a.Type == "archive" || a.Type == "" {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", a.Filename))
			_, _ = w.Write(a.Data)
			return
		}
	}
	refuse(w, http.StatusNotFound, "404 Not found")
}
