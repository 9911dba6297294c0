// Package otlp sends what OpenTelemetry's protocol calls signals to a collector, over HTTP and in the protocol's JSON encoding: IDs are
// hexadecimal, and integers of 64 bits are strings.
package otlp

import (
	"strconv"
	"time"
)

// Schema is the version of the names of attributes.
const Schema = "https://opentelemetry.io/schemas/1.37.0"

// The kinds of spans, and the codes of their status, that are used.
const (
	Internal = 1
	Server   = 2

	OK    = 1
	Error = 2
)

// The messages, as far as they are used. Their fields are the protocol's.
type (
	// Traces is what is posted as traces.
	Traces struct {
		ResourceSpans []ResourceSpans `json:"resourceSpans"`
	}
	// ResourceSpans are the spans of one program.
	ResourceSpans struct {
		Resource   Resource     `json:"resource"`
		ScopeSpans []ScopeSpans `json:"scopeSpans"`
		SchemaURL  string       `json:"schemaUrl"`
	}
	// ScopeSpans are those of a part of it.
	ScopeSpans struct {
		Scope Scope   `json:"scope"`
		Spans []*Span `json:"spans"`
	}
	// Span is a time in which something was done.
	Span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []Attribute `json:"attributes,omitempty"`
		Status     Status      `json:"status"`
	}
	// Status says how a span ended; zero is neither well nor badly.
	Status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	// Logs is what is posted as logs.
	Logs struct {
		ResourceLogs []ResourceLogs `json:"resourceLogs"`
	}
	// ResourceLogs are the records of one program.
	ResourceLogs struct {
		Resource  Resource    `json:"resource"`
		ScopeLogs []ScopeLogs `json:"scopeLogs"`
		SchemaURL string      `json:"schemaUrl"`
	}
	// ScopeLogs are those of a part of it.
	ScopeLogs struct {
		Scope   Scope        `json:"scope"`
		Records []*LogRecord `json:"logRecords"`
	}
	// LogRecord is a line of a log.
	LogRecord struct {
		Time         string      `json:"timeUnixNano"`
		Severity     int         `json:"severityNumber"`
		SeverityText string      `json:"severityText"`
		Body         Value       `json:"body"`
		Attributes   []Attribute `json:"attributes,omitempty"`
		TraceID      string      `json:"traceId,omitempty"`
		SpanID       string      `json:"spanId,omitempty"`
	}
	// Resource says what a program is, and where.
	Resource struct {
		Attributes []Attribute `json:"attributes"`
	}
	// Scope is a part of a program.
	Scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	// Attribute is a named value.
	Attribute struct {
		Key   string `json:"key"`
		Value Value  `json:"value"`
	}
	// Value is of one type.
	Value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

// Texts makes attributes of pairs of keys and values; a value that is empty has none.
func Texts(pairs ...string) []Attribute {
	var list []Attribute
	for i := 0; i < len(pairs); i += 2 {
		if text := pairs[i+1]; text != "" {
			list = append(list, Attribute{Key: pairs[i], Value: Value{String: &text}})
		}
	}
	return list
}

// Number adds an attribute.
func (s *Span) Number(key string, n int64) { s.Attributes = append(s.Attributes, Number(key, n)) }

// Number makes an attribute.
func Number(key string, n int64) Attribute {
	text := strconv.FormatInt(n, 10)
	return Attribute{Key: key, Value: Value{Int: &text}}
}

// Nanoseconds is a time as the protocol has it.
func Nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
