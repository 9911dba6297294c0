package tracefile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/trace"
)

const (
	otlpTimeout    = 10 * time.Second // the default of OpenTelemetry
	maxOTLPTimeout = time.Minute
	maxOTLPAnswer  = 1 << 10 // bytes of an error's text that are shown
)

// Spans send traces to an OpenTelemetry collector, as the environment variables of OpenTelemetry say.
type Spans struct {
	endpoint string
	headers  http.Header
	timeout  time.Duration
	parent   trace.SpanParent
}

// traceparent is the form of TRACEPARENT, as W3C's Trace Context says: a version, the trace, the span, and flags.
var traceparent = lazyregexp.New(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// SpansTo returns where the environment says that spans go; nil is nowhere.
func SpansTo(getenv func(string) string) (*Spans, error) {
	first := func(name string) string {
		if text := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); text != "" {
			return text
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL, such as http://localhost:4318")
	}
	if first("PROTOCOL") == "grpc" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported: use http/json or http/protobuf, and the collector's port for HTTP (4318)")
	}
	s := &Spans{endpoint: endpoint, headers: http.Header{}, timeout: otlpTimeout}
	for pair := range strings.SplitSeq(first("HEADERS"), ",") {
		name, text, ok := strings.Cut(pair, "=")
		if decoded, err := url.PathUnescape(strings.TrimSpace(text)); ok && err == nil {
			s.headers.Set(strings.TrimSpace(name), decoded)
		}
	}
	if text := first("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, not %q", text)
		}
		s.timeout = min(time.Duration(ms)*time.Millisecond, maxOTLPTimeout)
	}
	if m := traceparent().FindStringSubmatch(getenv("TRACEPARENT")); m != nil && strings.Trim(m[1], "0") != "" && strings.Trim(m[2], "0") != "" {
		s.parent = trace.SpanParent{Trace: m[1], Span: m[2]}
	}
	return s, nil
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
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, &body)
	if err != nil {
		return err
	}
	request.Header = s.headers.Clone()
	request.Header.Set("Content-Type", "application/json")
	// A redirect would take the headers, which may hold a token, elsewhere.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxOTLPAnswer))
		return fmt.Errorf("the collector answered %s: %q", answer.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
