package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/rungci/rung/internal/otlp"
	"github.com/rungci/rung/steps/event"
)

// SpanParent is the span that the spans of a trace are below, in hexadecimal; the zero value is none.
type SpanParent = otlp.Parent

// writeOTLP is the export of one trace.
func writeOTLP(w io.Writer, t *Trace) error { return WriteSpans(w, []*Trace{t}, SpanParent{}) }

// WriteSpans writes traces as OTLP/JSON: a span for each run, one for every step that ran and one for every attempt, with the attributes of
// the semantic conventions for CI/CD. Several runs are jobs of one pipeline, which gets a span of its own. Inputs, outputs, environments
// and commands stay in the traces.
func WriteSpans(w io.Writer, traces []*Trace, parent SpanParent) error {
	if len(traces) == 0 {
		return nil
	}
	parts := []string{"trace"}
	for _, t := range traces {
		parts = append(parts, t.Run.ID)
	}
	if parent.Trace == "" {
		parent.Trace = otlp.ID(16, parts...)
	}
	var all otlp.Traces
	several := len(traces) > 1
	if several {
		o := newSpanWriter(traces[0], parent.Trace)
		parent.Span = o.wholePipeline(traces, parts, parent.Span)
		all.ResourceSpans = append(all.ResourceSpans, o.document())
	}
	for _, t := range traces {
		o := newSpanWriter(t, parent.Trace)
		o.run(parent.Span, several)
		for _, s := range t.Steps {
			o.step(s, o.spans[0])
		}
		all.ResourceSpans = append(all.ResourceSpans, o.document())
	}
	return json.NewEncoder(w).Encode(all)
}

type spanWriter struct {
	trace *Trace
	job   event.Identity
	id    string // of the trace that all spans are in
	spans []*otlp.Span
}

func newSpanWriter(t *Trace, id string) *spanWriter {
	return &spanWriter{trace: t, job: t.Identity(), id: id}
}

func (o *spanWriter) document() otlp.ResourceSpans {
	return otlp.ResourceSpans{
		Resource:   otlp.Resource{Attributes: o.resource()},
		ScopeSpans: []otlp.ScopeSpans{{Scope: otlp.Scope{Name: "github.com/rungci/rung", Version: o.trace.Runtime.Version}, Spans: o.spans}},
		SchemaURL:  otlp.Schema,
	}
}

// wholePipeline adds the span that the jobs of a pipeline are below, and returns its ID.
func (o *spanWriter) wholePipeline(traces []*Trace, parts []string, parent string) string {
	began, last := traces[0].Run.Started, traces[0].Run.Started
	for _, t := range traces {
		if t.Run.Started.Before(began) {
			began = t.Run.Started
		}
		if end := t.Run.Started.Add(t.Run.Duration); end.After(last) {
			last = end
		}
	}
	span := o.add("", nil, cmp.Or(o.pipeline(), "pipeline"), began, last.Sub(began))
	span.SpanID, span.Parent, span.Kind = otlp.ID(8, append(parts, "pipeline")...), parent, otlp.Server
	status := pipelineStatus(traces)
	span.Attributes = otlp.Texts("cicd.pipeline.result", otlpResult(status, firstError(traces)))
	ended(span, status, nil, "")
	return span.SpanID
}

// firstError is the error of the first job that failed, and was not allowed to.
func firstError(traces []*Trace) *event.Error {
	for _, t := range traces {
		if t.Run.Status == event.Failure && !t.Allowed() {
			return t.Run.Error
		}
	}
	return nil
}

// resource says what ran the steps and for which commit.
func (o *spanWriter) resource() []otlp.Attribute {
	job, rt := o.trace.Run.Job, o.trace.Runtime
	owner, name := path.Split(o.job.Project)
	return otlp.Texts("service.name", "step-runner", "service.version", rt.Version, "os.type", rt.OS, "host.arch", rt.Arch,
		"cicd.pipeline.name", o.pipeline(), "cicd.pipeline.run.id", cmp.Or(o.job.PipelineID, o.trace.Run.ID), "cicd.pipeline.run.url.full", job["CI_PIPELINE_URL"],
		"vcs.repository.url.full", job["CI_PROJECT_URL"], "vcs.repository.name", name, "vcs.owner.name", strings.TrimSuffix(owner, "/"),
		"vcs.ref.head.name", o.job.Ref, "vcs.ref.head.revision", o.job.Commit)
}

// pipeline names the pipeline; the project stands for one that has no name.
func (o *spanWriter) pipeline() string { return cmp.Or(o.job.Pipeline, o.job.Project) }

// run adds the span of a job, or of any run. Of several, the result of the pipeline is that of all.
func (o *spanWriter) run(parent string, several bool) {
	r := o.trace.Run
	span := o.add("", nil, cmp.Or(o.job.Job, "run"), r.Started, r.Duration)
	span.Kind, span.Parent = otlp.Server, parent
	result := otlpResult(r.Status, r.Error)
	if !several {
		span.Attributes = otlp.Texts("cicd.pipeline.result", result)
	}
	if o.job.Job != "" {
		span.Attributes = append(span.Attributes, otlp.Texts("cicd.pipeline.task.name", o.job.Job, "cicd.pipeline.task.run.id", r.ID, "cicd.pipeline.task.run.result", result)...)
	}
	span.Attributes = append(span.Attributes, otlp.Texts("rung.run.id", r.ID)...)
	if allowed := o.trace.Allowed(); allowed {
		span.Attributes = append(span.Attributes, otlp.Attribute{Key: "rung.job.allowed_to_fail", Value: otlp.Value{Bool: &allowed}})
		ended(span, event.Success, r.Error, "")
		return
	}
	ended(span, r.Status, r.Error, message(r.Error, ""))
}

func (o *spanWriter) step(s *Step, parent *otlp.Span) {
	if s.Status == event.Skipped || s.Started.IsZero() {
		return
	}
	span := o.add(s.ID, parent, s.label(), s.Started, s.Duration)
	ref := s.Ref
	if s.Resolved != nil {
		ref = s.Resolved.Ref
	}
	place := s.Span
	if s.Error != nil && len(s.Error.Diagnostics) > 0 {
		place = s.Error.Diagnostics[0].Span
	}
	span.Attributes = otlp.Texts("cicd.pipeline.task.name", s.label(), "cicd.pipeline.task.run.id", s.ID,
		"cicd.pipeline.task.run.result", otlpResult(s.Status, s.Error), "rung.step.kind", string(s.Kind), "rung.step.ref", ref, "code.file.path", place.File)
	if place.Line > 0 {
		span.Number("code.line.number", int64(place.Line))
	}
	if s.ExitCode != nil {
		span.Number("process.exit.code", int64(*s.ExitCode))
	}
	if s.Log != nil {
		span.Number("rung.step.log.size", s.Log.Bytes)
	}
	if s.Allowed {
		span.Attributes = append(span.Attributes, otlp.Attribute{Key: "rung.step.allowed_to_fail", Value: otlp.Value{Bool: &s.Allowed}})
	}
	if s.Allowed {
		ended(span, event.Success, s.Error, "")
	} else {
		ended(span, s.Status, s.Error, message(s.Error, WithoutRounds(s.ID)))
	}
	for i, a := range s.Attempts {
		attempt := o.add(fmt.Sprintf("%s/attempt-%d", s.ID, i+1), span, fmt.Sprintf("%s, attempt %d", s.label(), i+1), a.Started, a.Duration)
		attempt.Attributes = otlp.Texts("rung.attempt.signal", a.Signal)
		status := s.Status
		if a.ExitCode != nil {
			attempt.Number("process.exit.code", int64(*a.ExitCode))
			if status = event.Success; *a.ExitCode != 0 {
				status = event.Failure
			}
		}
		ended(attempt, status, a.Error, message(a.Error, WithoutRounds(s.ID)))
	}
	for _, inner := range s.Steps {
		o.step(inner, span)
	}
}

// add begins a span. IDs follow from that of the run, so that a trace that is exported again has the same ones.
func (o *spanWriter) add(id string, parent *otlp.Span, name string, started time.Time, took time.Duration) *otlp.Span {
	span := &otlp.Span{TraceID: o.id, SpanID: otlp.ID(8, "span", o.trace.Run.ID, id), Name: name, Kind: otlp.Internal,
		Start: otlp.Nanoseconds(started), End: otlp.Nanoseconds(started.Add(max(took, 0)))}
	if parent != nil {
		span.Parent = parent.SpanID
	}
	o.spans = append(o.spans, span)
	return span
}

// ended sets the status of a span. One that was cancelled, or still runs, is neither good nor bad.
func ended(s *otlp.Span, status event.Status, err *event.Error, text string) {
	if err != nil {
		s.Attributes = append(s.Attributes, otlp.Texts("error.type", string(cmp.Or(err.Code, err.Kind.Code())))...)
	}
	switch status {
	case event.Success:
		s.Status.Code = otlp.OK
	case event.Failure:
		s.Status = otlp.Status{Code: otlp.Error, Message: text}
	}
}

// otlpResult is a status in the words of cicd.pipeline.result.
func otlpResult(status event.Status, err *event.Error) string {
	switch status {
	case event.Success:
		return "success"
	case event.Cancelled:
		return "cancellation"
	case event.Skipped:
		return "skip"
	case event.Failure:
	default:
		return ""
	}
	if err != nil {
		switch err.Fault() {
		case event.FaultTimeout:
			return "timeout"
		case event.FaultSystem:
			return "error"
		}
	}
	return "failure"
}
