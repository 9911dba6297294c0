// Package exposition writes metrics in the text format of Prometheus (version 0.0.4).
//
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
package exposition

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ContentType is that of a page of metrics.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a metric.
type Kind string

// The kinds.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Durations Kind = "histogram"
)

// Writer writes families of metrics. After an error nothing more is written, and Flush returns it.
type Writer struct{ out *bufio.Writer }

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{bufio.NewWriter(w)} }

// Family begins a family. Its samples follow.
func (w *Writer) Family(name string, kind Kind, help string) {
	fmt.Fprintf(w.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Sample writes a value. labels are what Labels returned, or empty.
func (w *Writer) Sample(name, labels string, v float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(w.out, "%s%s %s\n", name, labels, number(v))
}

// Histogram writes a histogram.
func (w *Writer) Histogram(name, labels string, h *Histogram) {
	comma := ","
	if labels == "" {
		comma = ""
	}
	total := int64(0)
	for i, bound := range append(slices.Clone(h.bounds), 0) {
		text := "+Inf"
		if i < len(h.bounds) {
			text = number(bound)
		}
		if i < len(h.buckets) {
			total += h.buckets[i]
		}
		w.Sample(name+"_bucket", labels+comma+`le="`+text+`"`, float64(total))
	}
	w.Sample(name+"_sum", labels, h.sum)
	w.Sample(name+"_count", labels, float64(total))
}

// Flush ends the page.
func (w *Writer) Flush() error { return w.out.Flush() }

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// escape is what must not stand in a label's value as it is.
var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Labels are names and values by turns, as they stand in a sample. A label without a value is left out: it means the same.
func Labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i] + `="` + escape.Replace(strings.ToValidUTF8(pairs[i+1], "�")) + `"`)
	}
	return b.String()
}

// Histogram counts values by bucket. It is not safe for concurrent use.
type Histogram struct {
	bounds  []float64
	buckets []int64 // one more than bounds: the last one has none
	sum     float64
}

// NewHistogram makes a histogram with these upper bounds, in ascending order.
func NewHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, buckets: make([]int64, len(bounds)+1)}
}

// Observe counts a duration, in seconds.
func (h *Histogram) Observe(d time.Duration) { h.Count(d.Seconds()) }

// Count counts a value.
func (h *Histogram) Count(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.buckets[i]++
	h.sum += v
}

// Clone is a copy that stays as it is.
func (h *Histogram) Clone() *Histogram {
	return &Histogram{bounds: h.bounds, buckets: slices.Clone(h.buckets), sum: h.sum}
}
