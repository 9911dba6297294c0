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
	"sync"
	"time"

	"github.com/rungci/rung/manager/gitlab"
)

// Job is a job of the server. Its methods are safe for concurrent use.
type Job struct {
	server  *Server
	payload gitlab.Job
	// disguise changes the JSON that runners get; nil is as it is.
	disguise func([]byte) []byte

	state         gitlab.State
	handed        bool // a runner has it; with the two-phase commit it is pending until that runner says that it runs
	manager       string
	log           []byte // what is kept of it
	size          int64  // of all of it
	sum           uint32 // its CRC-32
	logType       string // "" or "debug"
	failureReason string
	exitCode      int
	artifacts     []Artifact
	watched       bool
	migrations    int // answers with 202 that are left
	updates       []gitlab.State
	handedOut     time.Time
	handouts      int
	finished      time.Time
	session       *gitlab.Session // where its terminal is; nil is nowhere
}

// Artifact is a file that a job uploaded.
type Artifact struct {
	Type, Format, ExpireIn, Filename string
	Data                             []byte
}

// Enqueue adds a job to the queue. Its ID and token are made by the server if they are not set.
func (s *Server) Enqueue(payload gitlab.Job) *Job { return s.EnqueueAs(payload, nil) }

func (s *Server) enqueue(payload gitlab.Job, disguise func([]byte) []byte) *Job {
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
	j := &Job{server: s, payload: payload, disguise: disguise, state: gitlab.Pending, migrations: s.opts.Migrations}
	s.jobs[payload.ID] = j
	s.queue = append(s.queue, j)
	s.version++
	s.change()
	return j
}

// EnqueueAs is Enqueue for a job whose JSON is what disguise makes of the right one: a hostile one, or that of another GitLab.
func (s *Server) EnqueueAs(payload gitlab.Job, disguise func([]byte) []byte) *Job {
	return s.enqueue(payload, disguise)
}

// Ref identifies the job to the runner API.
func (j *Job) Ref() gitlab.Ref { return gitlab.Ref{ID: j.payload.ID, Token: j.payload.Token} }

// Result is how a job is, or how it ended.
type Result struct {
	State         gitlab.State
	FailureReason string
	ExitCode      int
	Log           string // as much of it as Options.KeepLog says
	LogSize       int64  // of the whole log, in bytes
	Debug         bool   // the log was sent as one that not everybody may see
	Artifacts     []Artifact
	// Updates are the states that the runner reported, in order.
	Updates []gitlab.State
	Manager string // the system ID of who has it
	Handed  int    // how often it was handed out
	// HandedOut is when it was handed out last; zero before that.
	HandedOut time.Time
	// Took is the time from the hand-out to the final state; 0 before that.
	Took time.Duration
}

// Result is how the job is now.
func (j *Job) Result() Result {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	r := Result{
		State: j.state, FailureReason: j.failureReason, ExitCode: j.exitCode, Log: string(j.log), LogSize: j.size, Debug: j.logType == "debug",
		Artifacts: slices.Clone(j.artifacts), Updates: slices.Clone(j.updates), Manager: j.manager, Handed: j.handouts, HandedOut: j.handedOut,
	}
	if !j.finished.IsZero() {
		r.Took = j.finished.Sub(j.handedOut)
	}
	return r
}

// Status is Result without what takes memory: the log and the artifacts are not in it.
func (j *Job) Status() Result {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	return Result{State: j.state, FailureReason: j.failureReason, ExitCode: j.exitCode, Manager: j.manager, LogSize: j.size, Handed: j.handouts}
}

// LogFrom is what the log holds from an offset on, and its size.
func (j *Job) LogFrom(offset int) (part []byte, size int) {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	return slices.Clone(j.log[max(0, min(offset, len(j.log))):]), len(j.log)
}

// Artifacts are what the job has uploaded.
func (j *Job) Artifacts() []Artifact {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	return slices.Clone(j.artifacts)
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
	if req.Session != nil {
		if wrong := checkSession(req.Session); wrong != "" {
			s.violation("POST /jobs/request: %s", wrong)
		}
	}
	s.requeue()
	current := strconv.FormatInt(int64(s.version), 16)
	if len(s.queue) == 0 && s.opts.LongPoll > 0 && (req.LastUpdate == current || s.opts.Holds && req.LastUpdate != "") {
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
	j.handed, j.manager, j.handedOut, j.session = true, req.SystemID, time.Now(), req.Session
	j.handouts++
	if !req.Info.Features.TwoPhaseJobCommit {
		j.state = gitlab.Running
	}
	s.change()
	if j.disguise != nil {
		body, _ := json.Marshal(j.payload)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(j.disguise(body))
		return
	}
	answerJSON(w, http.StatusCreated, j.payload)
}

// requeue puts jobs into the queue again that were handed out, and that nobody has said to run. The caller holds the lock.
func (s *Server) requeue() {
	if s.opts.Requeue <= 0 {
		return
	}
	for _, j := range s.jobs {
		if j.handed && j.state == gitlab.Pending && time.Since(j.handedOut) > s.opts.Requeue {
			j.handed = false
			s.queue = append(s.queue, j)
			s.version++
			s.change()
		}
	}
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
	case gitlab.Pending: // a sign of life
		j.handedOut = time.Now()
	case gitlab.Running:
		if j.state == gitlab.Pending {
			j.state = gitlab.Running
		}
	case gitlab.Success, gitlab.Failed:
		if j.state == gitlab.Pending {
			s.violation("job %d ended before it was said to run", j.payload.ID)
			refuse(w, http.StatusForbidden, "403 Forbidden - Job is not running")
			return
		}
		if req.Output.Checksum != "" {
			if want := fmt.Sprintf("crc32:%08x", j.sum); req.Output.Checksum != want || req.Output.Bytesize != j.size {
				s.violation("the log of job %d has %d bytes and checksum %s, not %d and %s", j.payload.ID, j.size, want, req.Output.Bytesize, req.Output.Checksum)
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

// parts are the buffers for parts of logs.
var parts = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// add takes a part of the log. The caller holds the lock.
func (j *Job) add(part []byte) {
	j.size += int64(len(part))
	j.sum = crc32.Update(j.sum, crc32.IEEETable, part)
	if most := j.server.opts.KeepLog; most > 0 {
		part = part[:min(len(part), max(0, most-len(j.log)))]
	}
	j.log = append(j.log, part...)
}

func (s *Server) patchTrace(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "text/plain" { // GitLab takes an empty one for JSON
		refuse(w, http.StatusUnsupportedMediaType, "the provided content-type is not supported")
		return
	}
	buf, _ := parts.Get().(*bytes.Buffer)
	defer parts.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, 8<<20)); err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	body := buf.Bytes()
	j := s.job(w, r, r.Header.Get("JOB-TOKEN"))
	if j == nil {
		return
	}
	defer s.mu.Unlock()
	from, to, ok := strings.Cut(r.Header.Get("Content-Range"), "-")
	start, err1 := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	have := j.size
	switch {
	case !ok || err1 != nil || err2 != nil:
		refuse(w, http.StatusBadRequest, "Missing header Content-Range")
		return
	case j.state == gitlab.Pending:
		s.violation("a part of the log of job %d came before it was said to run", j.payload.ID)
		refuse(w, http.StatusForbidden, "403 Forbidden - Job is not running")
		return
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
	j.add(body)
	if r.URL.Query().Get("debug_trace") == "true" {
		j.logType = "debug"
	}
	s.change()
	interval := s.opts.Unwatched
	if j.watched {
		interval = s.opts.Watched
	}
	w.Header().Set("X-GitLab-Trace-Update-Interval", strconv.Itoa(interval))
	w.Header().Set("Range", fmt.Sprintf("0-%d", j.size))
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
	a := Artifact{Type: r.FormValue("artifact_type"), Format: r.FormValue("artifact_format"), ExpireIn: r.FormValue("expire_in"), Filename: header.Filename, Data: data}
	if s.opts.Accept != nil {
		if err := s.opts.Accept(a); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	j.artifacts = append(j.artifacts, a)
	s.change()
	answerJSON(w, http.StatusCreated, json.RawMessage("201"))
}

// Upload adds an artifact to the job, as if its runner had sent it: it may be hostile.
func (j *Job) Upload(a Artifact) {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	j.artifacts = append(j.artifacts, a)
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
