package gitlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Session is where GitLab reaches the terminal of a job.
type Session struct {
	URL           string `json:"url,omitempty"`
	Certificate   string `json:"certificate,omitempty"` // PEM
	Authorization string `json:"authorization,omitempty"`
}

// Ask is a request for a job.
type Ask struct {
	Runner Runner
	// LastUpdate is Answer.LastUpdate of the answer before. With it GitLab may hold the request until there is a job, for up to 50 s.
	LastUpdate string
	Session    *Session
}

// Answer is what GitLab has for a runner.
type Answer struct {
	Job        *Job // nil: nothing to do
	LastUpdate string
}

// RequestJob asks for a job. An answer without a job is no error.
func (c *Client) RequestJob(ctx context.Context, a Ask) (*Answer, error) {
	body := struct {
		Info       Info     `json:"info"`
		Token      string   `json:"token"`
		SystemID   string   `json:"system_id,omitempty"`
		LastUpdate string   `json:"last_update,omitempty"`
		Session    *Session `json:"session,omitempty"`
	}{c.opts.Info, a.Runner.Token, a.Runner.SystemID, a.LastUpdate, a.Session}
	var job Job
	var raw json.RawMessage
	got, err := c.do(ctx, request{
		method: http.MethodPost, path: "/jobs/request", header: a.Runner.header(), body: body, into: &raw,
		accept: []int{http.StatusCreated, http.StatusNoContent},
	})
	switch {
	case err != nil:
		return nil, err
	case got.status == http.StatusNoContent:
		return &Answer{LastUpdate: got.header.Get("X-GitLab-Last-Update")}, nil
	}
	if job, err = readJob(raw); err != nil {
		return nil, &NetworkError{Endpoint: "POST /jobs/request", RequestID: got.header.Get("X-Request-Id"), Err: err}
	}
	return &Answer{Job: &job}, nil
}

// readJob reads a job. Of one that is not as the runner API documents, there is what reports that: Job.Unreadable.
func readJob(raw []byte) (job Job, err error) {
	if wrong := json.Unmarshal(raw, &job); wrong != nil {
		var ref struct {
			ID    int64  `json:"id"`
			Token string `json:"token"`
		}
		if json.Unmarshal(raw, &ref) != nil {
			return Job{}, fmt.Errorf("the answer is not what the runner API documents: %w", wrong)
		}
		job = Job{ID: ref.ID, Token: ref.Token, Unreadable: wrong.Error()}
	}
	if job.ID <= 0 || job.Token == "" {
		return Job{}, errors.New("the job has no id or no token")
	}
	return job, nil
}

// Ref identifies a job to GitLab.
type Ref struct {
	ID    int64
	Token string
}

func (r Ref) header() http.Header { return http.Header{"JOB-TOKEN": {r.Token}} }

func (r Ref) path(rest string) string { return "/jobs/" + strconv.FormatInt(r.ID, 10) + rest }

// State is how far a job is, in GitLab's words.
type State string

// The states that a runner reports.
const (
	Running State = "running"
	Success State = "success"
	Failed  State = "failed"
)

// The states that GitLab answers with beyond those.
const (
	Pending   State = "pending"
	Canceling State = "canceling" // somebody cancelled it: end the script, run after_script
	Canceled  State = "canceled"
)

// Output describes the log that was sent.
type Output struct {
	Checksum string `json:"checksum,omitempty"` // "crc32:" and eight hexadecimal digits, of all bytes
	Bytesize int64  `json:"bytesize,omitempty"`
}

// Update is the state of a job.
type Update struct {
	State         State
	FailureReason string // with Failed
	Output        Output
	ExitCode      int // with Failed: that of the script, or 0
}

// Reply is what GitLab says to an update, or to a part of the log.
type Reply struct {
	// JobStatus is the state that the job has for GitLab; empty if it did not say.
	JobStatus State
	// Again says that GitLab has not taken in the log yet, and wants the same update again after Interval.
	Again bool
	// Interval is how often GitLab wants to hear of the job; 0 if it did not say.
	Interval time.Duration
}

// Cancelled reports whether somebody wants the job to end, with its after_script.
func (r *Reply) Cancelled() bool { return r.JobStatus == Canceling }

// ErrJobGone says that the job is not this runner's any more: it was cancelled or erased, it ended by GitLab's decision, or its token has expired.
// It has to end at once, and nothing more of it can be reported.
var ErrJobGone = errors.New("GitLab has ended the job")

// ErrPending says that GitLab waits to hear that the job runs, and takes nothing else of it before.
var ErrPending = errors.New("GitLab has not been told that the job runs")

// ErrOffset says that a part of the log does not begin where the log that GitLab has ends.
type ErrOffset struct{ Size int64 } // what GitLab has, in bytes

func (e *ErrOffset) Error() string { return fmt.Sprintf("GitLab has %d bytes of the log", e.Size) }

// ErrChecksum says that the log that GitLab has is not the one that Output describes: it has to be sent again from its start.
var ErrChecksum = errors.New("the log that GitLab has differs from the one that was sent")

// UpdateJob reports the state of a job.
func (c *Client) UpdateJob(ctx context.Context, job Ref, u Update) (*Reply, error) {
	body := struct {
		Info          Info   `json:"info"`
		Token         string `json:"token"`
		State         State  `json:"state"`
		FailureReason string `json:"failure_reason,omitempty"`
		Checksum      string `json:"checksum,omitempty"` // as before 13.x
		Output        Output `json:"output,omitzero"`
		ExitCode      int32  `json:"exit_code,omitempty"`
	}{c.opts.Info, job.Token, u.State, u.FailureReason, u.Output.Checksum, u.Output, ExitCode(u.ExitCode)}
	got, err := c.do(ctx, request{
		method: http.MethodPut, path: job.path(""), header: job.header(), body: body, accept: []int{http.StatusOK, http.StatusAccepted},
	})
	switch {
	case Status(err) == http.StatusPreconditionFailed:
		return nil, ErrChecksum
	case Status(err) == http.StatusForbidden && u.State != Success && u.State != Failed: // a pending job, too, is not this runner's then
		return nil, fmt.Errorf("%w: %w", ErrJobGone, err)
	case err == nil && u.State != Running:
		r := readReply(got)
		r.Again = got.status == http.StatusAccepted
		return r, nil
	}
	return reply(got, err)
}

// PatchTrace sends the part of the log that begins at start, and returns how much of the log GitLab has then. The error is a *ErrOffset
// where GitLab has another part of it. The part must not be empty. It is read as it is sent, and perhaps for a moment after the call.
func (c *Client) PatchTrace(ctx context.Context, job Ref, start int64, part *io.SectionReader, debug bool) (int64, *Reply, error) {
	header := job.header()
	header.Set("Content-Type", "text/plain")
	header.Set("Content-Range", fmt.Sprintf("%d-%d", start, start+part.Size()-1)) // the end is inclusive here
	got, err := c.do(ctx, request{
		method: http.MethodPatch, path: job.path("/trace?debug_trace=" + strconv.FormatBool(debug)), header: header, raw: part,
		accept: []int{http.StatusAccepted},
	})
	if Status(err) == http.StatusRequestedRangeNotSatisfiable {
		if size, ok := size(got.header); ok {
			return size, nil, &ErrOffset{Size: size}
		}
	}
	r, err := reply(got, err)
	if err != nil {
		return 0, r, err
	}
	if size, ok := size(got.header); ok {
		return size, r, nil
	}
	return start + part.Size(), r, nil
}

// size is that of the log that GitLab has: the end of "0-SIZE" is exclusive here.
func size(h http.Header) (int64, bool) {
	_, end, ok := strings.Cut(h.Get("Range"), "-")
	n, err := strconv.ParseInt(end, 10, 64)
	return n, ok && err == nil && n >= 0
}

// readReply reads what GitLab says of the job.
func readReply(got *answer) *Reply {
	r := &Reply{JobStatus: State(got.header.Get("Job-Status"))}
	if seconds, err := strconv.Atoi(got.header.Get("X-GitLab-Trace-Update-Interval")); err == nil && seconds > 0 {
		r.Interval = min(time.Duration(seconds)*time.Second, MaxInterval)
	}
	return r
}

// reply is readReply, with ErrJobGone if the answer ends the job, and ErrPending if GitLab waits for another one before.
func reply(got *answer, err error) (*Reply, error) {
	switch status := Status(err); {
	case status == http.StatusForbidden && readReply(got).JobStatus == Pending:
		return readReply(got), fmt.Errorf("%w: %w", ErrPending, err)
	case status == http.StatusForbidden || status == http.StatusNotFound:
		return readReply(got), fmt.Errorf("%w: %w", ErrJobGone, err)
	case err != nil:
		return nil, err
	}
	r := readReply(got)
	if r.JobStatus == Canceled || r.JobStatus == Failed {
		return r, fmt.Errorf("%w: it is %s", ErrJobGone, r.JobStatus)
	}
	return r, nil
}

// MaxInterval is the longest time between two signs of life of a job, whatever GitLab asks for.
const MaxInterval = 15 * time.Minute

// ExitCode is an exit code as GitLab stores it: those of Windows have 32 bits without a sign.
func ExitCode(code int) int32 { return int32(uint32(code)) } //nolint:gosec // that is the point
