//go:build unix

package manager_test

import (
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/telemetry"
)

// collector takes OTLP over HTTP with OpenTelemetry's own messages, and refuses what these have not.
type collector struct {
	t *testing.T

	mu      sync.Mutex
	spans   map[string]*spans.Span // by service and name
	records []*logs.LogRecord
	token   string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = r.Header.Get("X-Token")
	var traces spans.TracesData
	var lines logs.LogsData
	var err error
	switch r.URL.Path {
	case "/v1/traces":
		err = protojson.Unmarshal(body, &traces)
	case "/v1/logs":
		err = protojson.Unmarshal(body, &lines)
	default:
		c.t.Error("a request to", r.URL.Path)
	}
	if err != nil {
		c.t.Errorf("%s: %v\n%s", r.URL.Path, err, body)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range traces.ResourceSpans {
		for _, s := range of.ScopeSpans[0].Spans {
			c.spans[attribute(of.Resource.Attributes, "service.name")+" "+s.Name] = s
		}
	}
	for _, of := range lines.ResourceLogs {
		c.records = append(c.records, of.ScopeLogs[0].LogRecords...)
	}
}

func attribute(list []*common.KeyValue, key string) string {
	for _, a := range list {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// id is an ID as hexadecimal text has it, which OpenTelemetry's JSON uses and that of protocol buffers reads as base64.
func id(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

// observed is a manager whose spans and log go to a collector.
func (w *world) observed(pairs ...string) (*collector, *telemetry.Exporter) {
	w.t.Helper()
	c := &collector{t: w.t, spans: map[string]*spans.Span{}}
	server := httptest.NewServer(c)
	w.t.Cleanup(server.Close)
	env := map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "x-token=a%20b", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	log := slog.NewTextHandler(io.Discard, nil)
	sent, err := telemetry.New(telemetry.Options{
		Getenv: func(name string) string { return env[name] }, Endpoint: server.URL, Version: "1", SystemID: "s_1", Log: slog.New(log),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	program, err := executortest.Program()
	if err != nil {
		w.t.Fatal(err)
	}
	o := w.options(w.configure("concurrent = 2\ncheck_interval = 1", ""), program)
	o.Telemetry, o.Log = sent, slog.New(sent.Handler(log))
	if w.manager, err = manager.New(o); err != nil {
		w.t.Fatal(err)
	}
	go func() { w.ended <- w.manager.Run(w.t.Context()) }()
	return c, sent
}

// finish ends the manager, and with it what is sent.
func (w *world) finish(sent *telemetry.Exporter) {
	w.t.Helper()
	w.manager.Drain()
	w.wait()
	sent.Close()
}

func TestAJobIsASpanWithItsStepsBelow(t *testing.T) {
	w := newWorld(t)
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	job := script("echo parent $TRACEPARENT", "exit 3")
	job.Features.Tracing = &gitlab.Tracing{TraceID: trace, SpanParentID: parent}
	j := w.server.Enqueue(job)
	c, sent := w.observed()
	r := w.result(j)
	w.finish(sent)
	whole, run, prepare, upload := c.spans["rung job test"], c.spans["rung run"], c.spans["rung prepare"], c.spans["rung upload"]
	if whole == nil || run == nil || prepare == nil || upload == nil {
		t.Fatalf("got %v", c.spans)
	}
	if id(whole.TraceId) != trace || id(whole.ParentSpanId) != parent {
		t.Errorf("the job is in trace %s below %s", id(whole.TraceId), id(whole.ParentSpanId))
	}
	for _, s := range []*spans.Span{run, prepare, upload} {
		if id(s.ParentSpanId) != id(whole.SpanId) || s.StartTimeUnixNano < whole.StartTimeUnixNano || s.EndTimeUnixNano > whole.EndTimeUnixNano {
			t.Errorf("%s is not within the job: %v", s.Name, s)
		}
	}
	if prepare.EndTimeUnixNano > run.StartTimeUnixNano || run.EndTimeUnixNano > upload.StartTimeUnixNano {
		t.Error("prepare, run and upload are not one after the other")
	}
	if want := "parent 00-" + trace + "-" + id(run.SpanId) + "-01\n"; !strings.Contains(r.Log, want) {
		t.Errorf("the job does not know its span %s:\n%s", want, r.Log)
	}
	for _, s := range c.spans {
		if id(s.TraceId) != trace {
			t.Errorf("%s is in trace %s", s.Name, id(s.TraceId))
		}
	}
	if steps, script := c.spans["step-runner test"], c.spans["step-runner script"]; steps == nil || script == nil || id(steps.ParentSpanId) != id(run.SpanId) {
		t.Errorf("the steps are not below the run of the job: %v", c.spans)
	}
	if whole.Status.Code != spans.Status_STATUS_CODE_ERROR || attribute(whole.Attributes, "cicd.pipeline.task.run.result") != "failure" || attribute(whole.Attributes, "error.type") != "script_failure" {
		t.Errorf("the job ended as %v, %v", whole.Status, whole.Attributes)
	}
	if c.token != "a b" {
		t.Errorf("the header is %q", c.token)
	}
}

func TestTheLogOfTheManagerIsSent(t *testing.T) {
	w := newWorld(t)
	j := w.server.Enqueue(script("echo of-the-job"))
	c, sent := w.observed("OTEL_TRACES_EXPORTER", "none", "OTEL_SERVICE_NAME", "mine")
	if r := w.result(j); r.State != gitlab.Success {
		t.Fatal(r.Log)
	}
	w.finish(sent)
	found := false
	for _, r := range c.records {
		text := r.Body.GetStringValue()
		if strings.Contains(r.String(), "of-the-job") || strings.Contains(r.String(), w.tokens[0]) {
			t.Errorf("sent: %v", r)
		}
		if text == "the job succeeded" {
			found = r.SeverityNumber == logs.SeverityNumber_SEVERITY_NUMBER_INFO && attribute(r.Attributes, "runner") == "runner-0" && r.TimeUnixNano > 0
		}
	}
	if !found || len(c.spans) > 0 {
		t.Errorf("records %v, spans %v", c.records, c.spans)
	}
}

func TestACollectorThatIsAwayHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	j := w.server.Enqueue(script("true"))
	_, sent := w.observed("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	if r := w.result(j); r.State != gitlab.Success {
		t.Error(r.Log)
	}
	w.finish(sent)
}

func TestWrongSettingsOfOpenTelemetryAreErrors(t *testing.T) {
	for endpoint, want := range map[string]string{"localhost:4318": "must be an http or https URL", "": ""} {
		sent, err := telemetry.New(telemetry.Options{Getenv: func(string) string { return "" }, Endpoint: endpoint})
		if want == "" && (sent != nil || err != nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v", endpoint, sent, err)
		}
	}
	var none *telemetry.Exporter
	none.Job(telemetry.Job{})
	none.Close()
}
