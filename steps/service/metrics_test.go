package service_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
)

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, w *world) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(w.service.MetricsHandler())
	defer server.Close()
	answer, err := http.Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if format := expfmt.ResponseFormat(answer.Header); format.FormatType() != expfmt.TypeTextPlain {
		t.Errorf("the format is %q", format)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sample returns the value of a metric with a label, "" for none; of a histogram its count.
func sample(t *testing.T, families map[string]*dto.MetricFamily, name, label string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		if label == "" && len(m.Label) == 0 || len(m.Label) == 1 && m.Label[0].GetValue() == label {
			switch {
			case m.Counter != nil:
				return m.Counter.GetValue()
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			case m.Histogram != nil:
				return float64(m.Histogram.GetSampleCount())
			}
		}
	}
	t.Fatalf("there is no %s{%s}", name, label)
	return 0
}

func TestMetrics(t *testing.T) {
	w := serve(t, func(o *service.Options) { o.Limits.Runs, o.Limits.LogBytes, o.Limits.Followers = 1, 8, 1 })
	w.run("good", "- {name: a, script: printf hello}")
	w.end("good")
	await(t, "its place is free", func() bool { return w.service.Active() == 0 })
	w.run("bad-secret-name", "- {name: a, script: 'echo more than eight; exit 3'}")
	await(t, "the second run ends", func() bool { return !w.status("bad-secret-name").Finished.IsZero() })
	await(t, "its place is free", func() bool { return w.service.Active() == 0 })
	w.run("long", "- {name: a, script: 'echo x; sleep 600'}")
	if err := w.client.Run(soon(t), w.request("too-many", "- {name: a, script: 'true'}")); err == nil {
		t.Fatal("a run beyond the limit was started")
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_, _ = w.client.FollowLogs(soon(t), "long", io.Discard, client.LogOptions{})
	}()
	await(t, "it is followed", func() bool { return sample(t, scrape(t, w), "step_runner_followers", "") == 1 })

	families := scrape(t, w)
	for _, want := range []struct {
		name, label string
		value       float64
	}{
		{"step_runner_runs", "running", 1}, {"step_runner_runs", "paused", 0}, {"step_runner_runs", "finished", 2},
		{"step_runner_runs_started_total", "", 3},
		{"step_runner_run_duration_seconds", "success", 1}, {"step_runner_run_duration_seconds", "failure", 1}, {"step_runner_run_duration_seconds", "cancelled", 0},
		{"step_runner_limit", "max-runs", 1}, {"step_runner_limit_reached_total", "max-runs", 1},
		{"step_runner_limit_reached_total", "max-log", 1}, {"step_runner_limit_reached_total", "max-followers", 0},
	} {
		if got := sample(t, families, want.name, want.label); got != want.value {
			t.Errorf("%s{%s} is %v, want %v", want.name, want.label, got, want.value)
		}
	}
	if got := sample(t, families, "step_runner_log_bytes_total", ""); got < float64(len("hello"+"more than eight\n")) {
		t.Errorf("%v bytes of log are counted", got)
	}
	for name, family := range families {
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		if strings.Contains(family.String(), "secret") {
			t.Errorf("%s tells what a client said: %s", name, family)
		}
	}
	if err := w.client.Cancel(soon(t), "long", event.Stop{}, true); err != nil {
		t.Fatal(err)
	}
	<-followed
}
