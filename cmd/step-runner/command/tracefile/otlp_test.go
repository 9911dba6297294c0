package tracefile

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

func finished(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Event(event.Event{Seq: 1, Body: event.RunStarted{ID: "run-1"}})
	r.Event(event.Event{Seq: 2, Body: event.RunFinished{Status: event.Success}})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestSpans(t *testing.T) {
	var path, kind, token, body string
	status := http.StatusOK
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/slow/v1/traces" {
			<-release
			return
		}
		path, kind, token, body = r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("X-Token"), string(data)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "the reason")
	}))
	defer server.Close()
	defer close(release)
	tr := finished(t)
	send := func(pairs ...string) error {
		s, err := SpansTo(environment(pairs...))
		if err != nil || s == nil {
			t.Fatalf("got %v, %v", s, err)
		}
		return s.Send(context.Background(), tr)
	}
	t.Run("spans are posted below the endpoint, with its headers", func(t *testing.T) {
		if err := send("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/base/", "OTEL_EXPORTER_OTLP_HEADERS", "a=b,x-token=a%20b"); err != nil {
			t.Fatal(err)
		}
		if path != "/base/v1/traces" || kind != "application/json" || token != "a b" || !strings.Contains(body, `"cicd.pipeline.result"`) {
			t.Errorf("got %s %s %s %s", path, kind, token, body)
		}
	})
	t.Run("they are below the span that TRACEPARENT names", func(t *testing.T) {
		const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		for parent, want := range map[string]bool{
			"00-" + id + "-" + span + "-01": true, "00-" + id + "-" + strings.Repeat("0", 16) + "-01": false, id: false,
		} {
			if err := send("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL, "TRACEPARENT", parent); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(body, `"traceId":"`+id+`"`) && strings.Contains(body, `"parentSpanId":"`+span+`"`); got != want {
				t.Errorf("%s: got %s", parent, body)
			}
		}
	})
	t.Run("an endpoint of traces alone is taken as it is", func(t *testing.T) {
		if err := send("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/t"); err != nil || path != "/t" {
			t.Errorf("got %s, %v", path, err)
		}
	})
	t.Run("a refusal says why, and a redirect is not followed", func(t *testing.T) {
		for _, status = range []int{http.StatusBadRequest, http.StatusTemporaryRedirect} {
			if err := send("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL); err == nil || !strings.Contains(err.Error(), "the reason") || path != "/v1/traces" {
				t.Errorf("got %s, %v", path, err)
			}
		}
	})
	t.Run("a collector that does not answer is given up", func(t *testing.T) {
		if err := send("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/slow", "OTEL_EXPORTER_OTLP_TIMEOUT", "50"); err == nil {
			t.Error("there is no error")
		}
	})
	t.Run("wrong settings are errors, and none are none", func(t *testing.T) {
		for _, pairs := range [][]string{
			{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"},
			{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
			{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h", "OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
		} {
			if _, err := SpansTo(environment(pairs...)); err == nil {
				t.Errorf("%v is accepted", pairs)
			}
		}
		for _, pairs := range [][]string{{}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h", "OTEL_SDK_DISABLED", "true"}} {
			if s, err := SpansTo(environment(pairs...)); s != nil || err != nil {
				t.Errorf("%v is %v, %v", pairs, s, err)
			}
		}
	})
}
