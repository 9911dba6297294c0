package telemetry

import (
	"context"
	"log/slog"
	"slices"

	"github.com/rungci/rung/internal/otlp"
)

// Handler sends what is logged to the collector, too.
func (e *Exporter) Handler(next slog.Handler) slog.Handler {
	if e == nil || e.logs == nil {
		return next
	}
	return &handler{Handler: next, exporter: e}
}

type handler struct {
	slog.Handler
	exporter *Exporter
	group    string // ends in a dot, or is empty
	known    []otlp.Attribute
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	message := r.Message
	record := &otlp.LogRecord{
		Time: otlp.Nanoseconds(r.Time), Severity: severity(r.Level), SeverityText: r.Level.String(), Body: otlp.Value{String: &message}, Attributes: slices.Clone(h.known),
	}
	r.Attrs(func(a slog.Attr) bool {
		record.Attributes = attributes(record.Attributes, h.group, a)
		return true
	})
	h.exporter.put(record)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.Handler, out.known = h.Handler.WithAttrs(attrs), slices.Clone(h.known)
	for _, a := range attrs {
		out.known = attributes(out.known, h.group, a)
	}
	return &out
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	out := *h
	out.Handler = h.Handler.WithGroup(name)
	if name != "" {
		out.group += name + "."
	}
	return &out
}

// attributes adds one of a record.
func attributes(to []otlp.Attribute, group string, a slog.Attr) []otlp.Attribute {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindGroup:
		for _, inner := range v.Group() {
			to = attributes(to, group+a.Key+".", inner)
		}
		return to
	case slog.KindInt64:
		return append(to, otlp.Number(group+a.Key, v.Int64()))
	case slog.KindBool:
		b := v.Bool()
		return append(to, otlp.Attribute{Key: group + a.Key, Value: otlp.Value{Bool: &b}})
	default:
		return append(to, otlp.Texts(group+a.Key, v.String())...)
	}
}

// severity is a level as OpenTelemetry counts them.
func severity(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 17
	case level >= slog.LevelWarn:
		return 13
	case level >= slog.LevelInfo:
		return 9
	}
	return 5
}
