package trace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/event"
)

// The messages of OTLP, as far as spans need them, in its JSON encoding: IDs in hexadecimal, integers of 64 bits as strings.
type (
	otlpTraces struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource   otlpResource     `json:"resource"`
		ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
		SchemaURL  string           `json:"schemaUrl"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeSpans struct {
		Scope otlpScope   `json:"scope"`
		Spans []*otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Status     otlpStatus      `json:"status"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

const (
	otlpSchema   = "https://opentelemetry.io/schemas/1.37.0" // of the names of attributes
	otlpInternal = 1                                         // kinds of spans
	otlpServer   = 2
	otlpOK       = 1 // codes of status
	otlpError    = 2
)

// SpanParent is the span that the spans of a trace are below, in hexadecimal; the zero value is none.
type SpanParent struct{ Trace, Span string }

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
		parent.Trace = otlpID(16, parts...)
	}
	var all otlpTraces
	if len(traces) > 1 {
		o := &otlp{trace: traces[0], id: parent.Trace}
		parent.Span = o.wholePipeline(traces, parts, parent.Span)
		all.ResourceSpans = append(all.ResourceSpans, o.document())
	}
	for _, t := range traces {
		o := &otlp{trace: t, id: parent.Trace}
		o.run(parent.Span)
		for _, s := range t.Steps {
			o.step(s, o.spans[0])
		}
		all.ResourceSpans = append(all.ResourceSpans, o.document())
	}
	return json.NewEncoder(w).Encode(all)
}

type otlp struct {
	trace *Trace
	id    string // of the trace that all spans are in
	spans []*otlpSpan
}

func (o *otlp) document() otlpResourceSpans {
	return otlpResourceSpans{
		Resource:   otlpResource{o.resource()},
		ScopeSpans: []otlpScopeSpans{{otlpScope{"github.com/rungci/rung", o.trace.Runtime.Version}, o.spans}},
		SchemaURL:  otlpSchema,
	}
}

// wholePipeline adds the span that the jobs of a pipeline are below, and returns its ID.
func (o *otlp) wholePipeline(traces []*Trace, parts []string, parent string) string {
	began, ended := traces[0].Run.Started, traces[0].Run.Started
	for _, t := range traces {
		if t.Run.Started.Before(began) {
			began = t.Run.Started
		}
		if end := t.Run.Started.Add(t.Run.Duration); end.After(ended) {
			ended = end
		}
	}
	span := o.add("", nil, cmp.Or(o.pipeline(), "pipeline"), began, ended.Sub(began))
	span.SpanID, span.Parent, span.Kind = otlpID(8, append(parts, "pipeline")...), parent, otlpServer
	return span.SpanID // without a status: a job that failed may have been allowed to
}

// resource says what ran the steps and for which commit.
func (o *otlp) resource() []otlpAttribute {
	job, rt := o.trace.Run.Job, o.trace.Runtime
	return texts("service.name", "step-runner", "service.version", rt.Version, "os.type", rt.OS, "host.arch", rt.Arch,
		"cicd.pipeline.name", o.pipeline(), "cicd.pipeline.run.id", cmp.Or(job["CI_PIPELINE_ID"], o.trace.Run.ID), "cicd.pipeline.run.url.full", job["CI_PIPELINE_URL"],
		"vcs.repository.url.full", job["CI_PROJECT_URL"], "vcs.ref.head.name", job["CI_COMMIT_REF_NAME"], "vcs.ref.head.revision", job["CI_COMMIT_SHA"])
}

func (o *otlp) pipeline() string {
	job := o.trace.Run.Job
	return cmp.Or(job["CI_PIPELINE_NAME"], job["CI_PROJECT_PATH"])
}

func (o *otlp) run(parent string) {
	r := o.trace.Run
	span := o.add("", nil, cmp.Or(r.Job["CI_JOB_NAME"], "run"), r.Started, r.Duration)
	span.Kind, span.Parent = otlpServer, parent
	span.Attributes = texts("cicd.pipeline.result", otlpResult(r.Status, r.Error), "rung.run.id", r.ID)
	span.ended(r.Status, r.Error, message(r.Error, ""))
}

func (o *otlp) step(s *Step, parent *otlpSpan) {
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
	span.Attributes = texts("cicd.pipeline.task.name", s.label(), "cicd.pipeline.task.run.id", s.ID,
		"cicd.pipeline.task.run.result", otlpResult(s.Status, s.Error), "rung.step.kind", string(s.Kind), "rung.step.ref", ref, "code.file.path", place.File)
	if place.Line > 0 {
		span.number("code.line.number", int64(place.Line))
	}
	if s.ExitCode != nil {
		span.number("process.exit.code", int64(*s.ExitCode))
	}
	if s.Log != nil {
		span.number("rung.step.log.size", s.Log.Bytes)
	}
	if s.Allowed {
		span.Attributes = append(span.Attributes, otlpAttribute{"rung.step.allowed_to_fail", otlpValue{Bool: &s.Allowed}})
	}
	if s.Allowed {
		span.ended(event.Success, s.Error, "")
	} else {
		span.ended(s.Status, s.Error, message(s.Error, WithoutRounds(s.ID)))
	}
	for i, a := range s.Attempts {
		attempt := o.add(fmt.Sprintf("%s/attempt-%d", s.ID, i+1), span, fmt.Sprintf("%s, attempt %d", s.label(), i+1), a.Started, a.Duration)
		attempt.Attributes = texts("rung.attempt.signal", a.Signal)
		status := s.Status
		if a.ExitCode != nil {
			attempt.number("process.exit.code", int64(*a.ExitCode))
			if status = event.Success; *a.ExitCode != 0 {
				status = event.Failure
			}
		}
		attempt.ended(status, a.Error, message(a.Error, WithoutRounds(s.ID)))
	}
	for _, inner := range s.Steps {
		o.step(inner, span)
	}
}

// add begins a span. IDs follow from that of the run, so that a trace that is exported again has the same ones.
func (o *otlp) add(id string, parent *otlpSpan, name string, started time.Time, took time.Duration) *otlpSpan {
	span := &otlpSpan{TraceID: o.id, SpanID: otlpID(8, "span", o.trace.Run.ID, id), Name: name, Kind: otlpInternal,
		Start: strconv.FormatInt(started.UnixNano(), 10), End: strconv.FormatInt(started.Add(max(took, 0)).UnixNano(), 10)}
	if parent != nil {
		span.Parent = parent.SpanID
	}
	o.spans = append(o.spans, span)
	return span
}

func otlpID(size int, parts ...string) string {
	text, _ := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:size])
}

// ended sets the status of a span. One that was cancelled, or still runs, is neither good nor bad.
func (s *otlpSpan) ended(status event.Status, err *event.Error, text string) {
	if err != nil {
		s.Attributes = append(s.Attributes, texts("error.type", string(cmp.Or(err.Code, err.Kind.Code())))...)
	}
	switch status {
	case event.Success:
		s.Status.Code = otlpOK
	case event.Failure:
		s.Status = otlpStatus{otlpError, text}
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

// texts makes attributes of pairs of keys and values; a value that is empty has none.
func texts(pairs ...string) []otlpAttribute {
	var list []otlpAttribute
	for i := 0; i < len(pairs); i += 2 {
		if text := pairs[i+1]; text != "" {
			list = append(list, otlpAttribute{pairs[i], otlpValue{String: &text}})
		}
	}
	return list
}

func (s *otlpSpan) number(key string, n int64) {
	text := strconv.FormatInt(n, 10)
	s.Attributes = append(s.Attributes, otlpAttribute{key, otlpValue{Int: &text}})
}
