package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// Tracing says what becomes of a job's trace.
type Tracing struct {
	// Digest is that of the step-runner, "sha256:…" or empty; may be nil.
	Digest func() string
	// Export is given a finished trace first, to read; may be nil.
	Export func(file string) error
	// Keep takes over a finished trace, and says where it is then; nil keeps none.
	Keep func(file string) (string, error)
	// Pack writes the archive that becomes an artifact of the job; nil makes none. GitLab takes one archive of a job: a job with artifacts of its own
	// keeps those.
	Pack func(file string, to io.Writer) error
}

const (
	traceName = "trace.json"
	// traceTime bounds the upload of a trace.
	traceTime = 5 * time.Minute
	// artifactName is what GitLab calls the archive with a trace.
	artifactName = "trace.zip"
	// logLimits is how many times the limit of the job's log its trace may hold: the log that people see is shortened, and the trace should be whole.
	logLimits = 4
	// logOverhead is about what an event of a log takes beside its bytes.
	logOverhead = 128
)

// tracer makes the trace of a job. A job never fails because of its trace.
type tracer struct {
	o    *Tracing // nil: there is none
	api  *gitlab.Client
	ref  gitlab.Ref
	file string
	note func(error)
	left int64 // how many more bytes of log it takes; negative is none
	most int64 // 0 is any number

	recorder   *trace.Recorder // nil before the run
	unfinished session.Unfinished
	begun      bool
	kept       string // where the trace is, when it is finished
}

func newTracer(o Options, from *gitlab.Job, ref gitlab.Ref) *tracer {
	return &tracer{
		o: o.Trace, api: o.API, ref: ref, file: filepath.Join(o.Folder, traceName), left: logLimits * o.LogLimit, most: logLimits * o.LogLimit,
		note: func(err error) { o.Note(fmt.Errorf("the trace of the job %d: %w", from.ID, err)) },
	}
}

// begin begins the trace, from the run's first event. After an adoption all of them come again.
func (t *tracer) begin() {
	if t.o == nil {
		return
	}
	var err error
	if t.recorder, err = trace.NewRecorder(t.file, trace.Options{RuntimeDigest: t.o.Digest, Volatile: true}); err != nil {
		t.recorder = nil
		t.note(err)
	}
}

// Event implements event.Sink: it takes the events of the run, from its first to its last.
func (t *tracer) Event(e event.Event) {
	switch body := e.Body.(type) {
	case event.RunStarted:
		t.begun = true
		body.FreshWorkDir = true // or with what an earlier job has left, but the job's own: its replay is not to change anybody's folder
		e.Body = body
	case event.Log:
		if t.most > 0 {
			if t.left < 0 {
				return
			}
			if t.left -= int64(len(body.Data)) + logOverhead; t.left < 0 {
				body.Data = fmt.Appendf(nil, "\n[the trace holds no more of the log: it is longer than %d times output_limit]\n", logLimits)
				e.Body = body
			}
		}
	case event.RunFinished:
		if !t.unfinished.Begun() {
			return
		}
	}
	if t.begun && t.recorder != nil {
		t.unfinished.Event(e)
		t.recorder.Event(e)
	}
}

// finish ends the trace, and gives it to those who want it. end is how the job ended; artifacts says that the job has an archive of its own.
func (t *tracer) finish(ctx context.Context, end *event.RunFinished, artifacts bool) {
	if t.recorder == nil {
		return
	}
	if end != nil {
		for _, e := range t.unfinished.Ends(*end) { // none if the run has said it
			t.recorder.Event(e)
		}
	}
	if err := t.recorder.Close(); err != nil {
		t.note(err)
		return
	}
	if _, err := os.Stat(t.file); errors.Is(err, fs.ErrNotExist) {
		return // nothing has run
	}
	if t.o.Export != nil {
		if err := t.o.Export(t.file); err != nil {
			t.note(err)
		}
	}
	file := t.file
	if t.o.Keep != nil {
		kept, err := t.o.Keep(file)
		if err != nil {
			t.note(err)
		}
		if kept != "" {
			t.kept, file = kept, kept // with its signature
		}
	}
	if t.o.Pack == nil || artifacts {
		return
	}
	if err := t.upload(ctx, file); err != nil {
		t.note(err)
	}
}

func (t *tracer) upload(ctx context.Context, file string) error {
	packed, err := os.Create(filepath.Join(filepath.Dir(t.file), artifactName))
	if err != nil {
		return err
	}
	defer os.Remove(packed.Name())
	defer packed.Close()
	if err := t.o.Pack(file, packed); err != nil {
		return err
	}
	size, err := packed.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, traceTime)
	defer end()
	return t.api.UploadArtifact(ctx, t.ref, gitlab.Upload{Name: artifactName, Type: "archive", Format: "zip", Data: io.NewSectionReader(packed, 0, size)})
}

// unwanted says why the trace is no artifact though it should be; empty if it is.
func (t *tracer) unwanted(artifacts bool) string {
	if t.o == nil || t.o.Pack == nil || !artifacts {
		return ""
	}
	return "the trace is not uploaded: GitLab takes one archive of a job, and this job has artifacts of its own"
}

// hasArchive reports whether a job uploads files as its artifacts, and not only reports.
func hasArchive(from *gitlab.Job) bool {
	return slices.ContainsFunc(from.Artifacts, func(a gitlab.Artifact) bool { return a.Type == "" || a.Type == "archive" })
}
