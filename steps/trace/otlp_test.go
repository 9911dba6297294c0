package trace

import (
	"bytes"
	"strings"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rungci/rung/steps/event"
)

// otlpSpans reads a trace as a collector does. The JSON of OTLP has IDs in hexadecimal where that of protocol buffers has base64; hexadecimal
// happens to be base64, of other bytes.
func otlpSpans(t *testing.T, document []byte) (resource []*common.KeyValue, list []*spans.Span) {
	t.Helper()
	var request spans.TracesData
	if err := protojson.Unmarshal(document, &request); err != nil {
		t.Fatal(err)
	}
	if len(request.ResourceSpans) != 1 || len(request.ResourceSpans[0].ScopeSpans) != 1 {
		t.Fatalf("got %v", &request)
	}
	return request.ResourceSpans[0].Resource.Attributes, request.ResourceSpans[0].ScopeSpans[0].Spans
}

func otlpText(list []*common.KeyValue, key string) string {
	for _, a := range list {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func TestOTLP(t *testing.T) {
	document := export(t, read(t, record(t, example)), "otlp")
	resource, list := otlpSpans(t, document)
	if otlpText(resource, "service.version") != "1.0.0" || otlpText(resource, "vcs.ref.head.revision") != "abc" {
		t.Errorf("the resource is %v", resource)
	}
	byName := map[string]*spans.Span{}
	byID := map[string]*spans.Span{}
	for _, s := range list {
		byName[s.Name], byID[string(s.SpanId)] = s, s
	}
	if len(byID) != len(list) {
		t.Error("two spans have one ID")
	}
	for _, s := range list {
		if len(s.TraceId) != 32*3/4 || len(s.SpanId) != 16*3/4 || s.EndTimeUnixNano < s.StartTimeUnixNano || s.StartTimeUnixNano == 0 {
			t.Errorf("a span is malformed: %v", s)
		}
		if parent := byID[string(s.ParentSpanId)]; parent == nil && s.Name != "run" {
			t.Errorf("%s has no parent", s.Name)
		} else if parent != nil && (s.StartTimeUnixNano < parent.StartTimeUnixNano || string(s.TraceId) != string(parent.TraceId)) {
			t.Errorf("%s is not in its parent", s.Name)
		}
	}
	for name, want := range map[string]struct {
		parent, attribute, value string
		status                   spans.Status_StatusCode
	}{
		"run":                {"", "cicd.pipeline.result", "failure", spans.Status_STATUS_CODE_ERROR},
		"Build it":           {"run", "rung.step.ref", "./build", spans.Status_STATUS_CODE_OK},
		"compile":            {"Build it", "cicd.pipeline.task.run.id", "2.1", spans.Status_STATUS_CODE_OK},
		"compile, attempt 1": {"compile", "error.type", "step_failed", spans.Status_STATUS_CODE_ERROR},
		"compile, attempt 2": {"compile", "", "", spans.Status_STATUS_CODE_OK},
		"lint":               {"checks", "cicd.pipeline.task.run.result", "failure", spans.Status_STATUS_CODE_ERROR},
	} {
		s := byName[name]
		if s == nil {
			t.Errorf("there is no span %q", name)
			continue
		}
		if parent := byID[string(s.ParentSpanId)]; want.parent != "" && (parent == nil || parent.Name != want.parent) {
			t.Errorf("%s is in %v", name, parent)
		}
		if s.Status.GetCode() != want.status || otlpText(s.Attributes, want.attribute) != want.value {
			t.Errorf("%s is %v", name, s)
		}
	}
	if byName["deploy"] != nil {
		t.Error("a step that was skipped has a span")
	}
	for _, private := range []string{"hmac", "/usr/bin", "all files", "out/app", "TOKEN"} {
		if bytes.Contains(document, []byte(private)) {
			t.Errorf("the spans hold %q", private)
		}
	}
	t.Run("an export of the same trace has the same IDs", func(t *testing.T) {
		if again := export(t, read(t, record(t, example)), "otlp"); !bytes.Equal(again, document) {
			t.Errorf("got\n%s\nwant\n%s", again, document)
		}
	})
	t.Run("a timeout, an internal error and a cancelled run have results of their own", func(t *testing.T) {
		for want, err := range map[string]*event.Error{"timeout": {Kind: event.ErrorTimeout}, "error": {Kind: event.ErrorSystem}, "failure": nil} {
			if got := otlpResult(event.Failure, err); got != want {
				t.Errorf("%v is %q", err, got)
			}
		}
		if otlpResult(event.Cancelled, nil) != "cancellation" || otlpResult(event.Running, nil) != "" {
			t.Error("wrong")
		}
	})
	t.Run("a run that was killed can be exported", func(t *testing.T) {
		if _, list := otlpSpans(t, export(t, killedRun(t), "otlp")); len(list) == 0 {
			t.Error("there are no spans")
		}
	})
}

func TestOTLPOfAPipeline(t *testing.T) {
	one, two := read(t, record(t, example)), read(t, record(t, example))
	two.Run.ID = "another"
	var document bytes.Buffer
	if err := WriteSpans(&document, []*Trace{one, two}, SpanParent{Trace: "4bf92f3577b34da6a3ce929d0e0e4736", Span: "00f067aa0ba902b7"}); err != nil {
		t.Fatal(err)
	}
	var request spans.TracesData
	if err := protojson.Unmarshal(document.Bytes(), &request); err != nil {
		t.Fatal(err)
	}
	ids, traces := map[string]bool{}, map[string]bool{}
	var roots []*spans.Span
	for _, r := range request.ResourceSpans {
		for _, s := range r.ScopeSpans[0].Spans {
			if ids[string(s.SpanId)] {
				t.Errorf("%s has an ID that another span has", s.Name)
			}
			ids[string(s.SpanId)], traces[string(s.TraceId)] = true, true
			if s.Kind == spans.Span_SPAN_KIND_SERVER {
				roots = append(roots, s)
			}
		}
	}
	if len(traces) != 1 || len(roots) != 3 {
		t.Fatalf("%d traces, and %d spans of a pipeline and its runs", len(traces), len(roots))
	}
	pipeline := roots[0]
	if pipeline.Status.GetCode() != spans.Status_STATUS_CODE_ERROR || otlpText(pipeline.Attributes, "cicd.pipeline.result") != "failure" {
		t.Errorf("the pipeline is %v", pipeline)
	}
	for _, run := range roots[1:] {
		if string(run.ParentSpanId) != string(pipeline.SpanId) || run.StartTimeUnixNano < pipeline.StartTimeUnixNano || run.EndTimeUnixNano > pipeline.EndTimeUnixNano {
			t.Errorf("the run is not in its pipeline: %v", run)
		}
	}
	if ids[string(pipeline.ParentSpanId)] || len(pipeline.ParentSpanId) == 0 {
		t.Errorf("the pipeline is below %q", pipeline.ParentSpanId)
	}
}

func TestOTLPTellsWhichJobsOfWhichPipeline(t *testing.T) {
	job := func(name string, exit int) *Trace {
		return read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: "run-of-" + name, Identity: &event.Identity{
				Project: "group/sub/project", Ref: "main", Commit: "abc", Pipeline: "ci.yml", PipelineID: "p42", Job: name, AllowFailure: name == "lint",
			}})
			s.run("1", "script", "", exit, 50)
			status := event.Success
			if exit != 0 {
				status = event.Failure
			}
			s.at(0, "", event.RunFinished{Status: status, ExitCode: &exit})
		}))
	}
	var document bytes.Buffer
	if err := WriteSpans(&document, []*Trace{job("build", 0), job("lint", 3)}, SpanParent{}); err != nil {
		t.Fatal(err)
	}
	var request spans.TracesData
	if err := protojson.Unmarshal(document.Bytes(), &request); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range request.ResourceSpans {
		for key, want := range map[string]string{
			"cicd.pipeline.name": "ci.yml", "cicd.pipeline.run.id": "p42", "vcs.repository.name": "project", "vcs.owner.name": "group/sub",
			"vcs.ref.head.name": "main", "vcs.ref.head.revision": "abc",
		} {
			if got := otlpText(r.Resource.Attributes, key); got != want {
				t.Errorf("%s is %q, not %q", key, got, want)
			}
		}
		for _, s := range r.ScopeSpans[0].Spans {
			if s.Kind != spans.Span_SPAN_KIND_SERVER {
				continue
			}
			names = append(names, s.Name)
			if s.Status.GetCode() != spans.Status_STATUS_CODE_OK {
				t.Errorf("%s has failed, though what failed was allowed to: %v", s.Name, s)
			}
			if task := otlpText(s.Attributes, "cicd.pipeline.task.name"); s.Name != "ci.yml" && task != s.Name {
				t.Errorf("%s is the job %q", s.Name, task)
			}
		}
	}
	if got := strings.Join(names, " "); got != "ci.yml build lint" {
		t.Errorf("the spans are %s", got)
	}
}
