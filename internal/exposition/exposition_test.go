package exposition_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rungci/rung/internal/exposition"
)

// TestPrometheusReadsWhatIsWritten gives the page to Prometheus's own parser.
func TestPrometheusReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	w := exposition.NewWriter(&page)
	w.Family("things", exposition.Gauge, "Things.")
	w.Sample("things", "", 3)
	w.Family("odd_total", exposition.Counter, "Odd ones.")
	w.Sample("odd_total", exposition.Labels("name", "a\"b\\c\nd", "absent", "", "bytes", "\xff"), math.Pi)
	h := exposition.NewHistogram([]float64{1, 5})
	for _, d := range []time.Duration{time.Second, 2 * time.Second, time.Minute} {
		h.Observe(d)
	}
	w.Family("took_seconds", exposition.Durations, "How long.")
	w.Histogram("took_seconds", "", h)
	w.Histogram("took_seconds", exposition.Labels("of", "x"), h.Clone())
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&page)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, l := range families["odd_total"].GetMetric()[0].GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["name"] != "a\"b\\c\nd" || labels["bytes"] != "�" || len(labels) != 2 {
		t.Errorf("labels: %q", labels)
	}
	took := families["took_seconds"].GetMetric()
	if len(took) != 2 {
		t.Fatalf("%d histograms", len(took))
	}
	for _, m := range took {
		got := m.GetHistogram()
		if got.GetSampleCount() != 3 || got.GetSampleSum() != 63 {
			t.Errorf("count %d, sum %v", got.GetSampleCount(), got.GetSampleSum())
		}
		for i, want := range []uint64{1, 2, 3} {
			if n := got.GetBucket()[i].GetCumulativeCount(); n != want {
				t.Errorf("bucket %d has %d, want %d", i, n, want)
			}
		}
	}
}
