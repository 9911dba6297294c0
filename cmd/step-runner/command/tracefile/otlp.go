package tracefile

import (
	"bytes"
	"context"

	"github.com/rungci/rung/internal/otlp"
	"github.com/rungci/rung/steps/trace"
)

// Spans send traces to an OpenTelemetry collector, as the environment variables of OpenTelemetry say.
type Spans struct {
	collector *otlp.Collector
	parent    trace.SpanParent
}

// SpansTo returns where the environment says that spans go; nil is nowhere.
func SpansTo(getenv func(string) string) (*Spans, error) {
	collector, err := otlp.CollectorOf(getenv, otlp.SignalTraces, "")
	if collector == nil || err != nil {
		return nil, err
	}
	return &Spans{collector, otlp.ParseParent(getenv("TRACEPARENT"))}, nil
}

// Send sends the spans of the traces in files, below the span that TRACEPARENT names. It takes no longer than the timeout of the environment,
// at most a minute.
func (s *Spans) Send(ctx context.Context, files ...string) error {
	traces := make([]*trace.Trace, len(files))
	for i, file := range files {
		var err error
		if traces[i], err = trace.Read(file); err != nil {
			return err
		}
	}
	var body bytes.Buffer
	if err := trace.WriteSpans(&body, traces, s.parent); err != nil || body.Len() == 0 {
		return err
	}
	return s.collector.Post(ctx, body.Bytes())
}
