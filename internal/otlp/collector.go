package otlp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/lazyregexp"
)

const (
	defaultTimeout = 10 * time.Second // OpenTelemetry's
	maxTimeout     = time.Minute
	maxAnswer      = 1 << 10 // bytes of an error's text that are shown
)

// Collector is where signals of one kind go.
type Collector struct {
	endpoint string
	headers  http.Header
	timeout  time.Duration
}

// The kinds of signals, as they are in addresses.
const (
	SignalTraces = "traces"
	SignalLogs   = "logs"
)

// CollectorOf returns the collector that the environment names, by the variables of OpenTelemetry, else the one at base; nil is none.
func CollectorOf(getenv func(string) string, signal, base string) (*Collector, error) {
	name := strings.ToUpper(signal)
	first := func(what string) string {
		if text := getenv("OTEL_EXPORTER_OTLP_" + name + "_" + what); text != "" {
			return text
		}
		return getenv("OTEL_EXPORTER_OTLP_" + what)
	}
	from := "OTEL_EXPORTER_OTLP_ENDPOINT"
	endpoint := getenv("OTEL_EXPORTER_OTLP_" + name + "_ENDPOINT")
	if set := getenv(from); set != "" {
		base = set
	} else if base != "" {
		from = "the endpoint for OpenTelemetry"
	}
	path := "" // below the endpoint
	if endpoint == "" {
		endpoint, path = base, "v1/"+signal
	}
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_"+name+"_EXPORTER") == "none" {
		return nil, nil
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%s must be an http or https URL, such as http://localhost:4318", from)
	}
	if first("PROTOCOL") == "grpc" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported: use http/json or http/protobuf, and the collector's port for HTTP (4318)")
	}
	if path != "" {
		at = at.JoinPath(path)
	}
	c := &Collector{endpoint: at.String(), headers: http.Header{}, timeout: defaultTimeout}
	for key, value := range Pairs(first("HEADERS")) {
		c.headers.Set(key, value)
	}
	if text := first("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, not %q", text)
		}
		c.timeout = min(time.Duration(ms)*time.Millisecond, maxTimeout)
	}
	return c, nil
}

// Pairs reads a list of keys and values as variables of OpenTelemetry have it: "a=b,c=d%20e". What cannot be read is left out.
func Pairs(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if decoded, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			out[strings.TrimSpace(key)] = decoded
		}
	}
	return out
}

// Send posts a message, encoded as JSON. It takes no longer than the timeout of the environment, at most a minute.
func (c *Collector) Send(ctx context.Context, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.Post(ctx, body)
}

// Post is Send for a message that is JSON already.
func (c *Collector) Post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.headers.Clone()
	request.Header.Set("Content-Type", "application/json")
	// A redirect would take the headers, which may hold a token, elsewhere.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return c.plain(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s: %q", answer.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// plain names the collector in an error without the user, password and query of its address, which may hold a token.
func (c *Collector) plain(err error) error {
	var of *url.Error
	at, wrong := url.Parse(c.endpoint)
	if wrong != nil || !errors.As(err, &of) {
		return err
	}
	return fmt.Errorf("%s://%s%s: %w", at.Scheme, at.Host, at.EscapedPath(), of.Err)
}

// Parent is a span that others are below, in hexadecimal; the zero value is none.
type Parent struct{ Trace, Span string }

// traceparent is the form of TRACEPARENT, as W3C's Trace Context says: a version, the trace, the span, and flags.
var traceparent = lazyregexp.New(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// ParseParent reads the value of TRACEPARENT; what is none gives the zero value.
func ParseParent(text string) Parent {
	m := traceparent().FindStringSubmatch(text)
	if m == nil || strings.Trim(m[1], "0") == "" || strings.Trim(m[2], "0") == "" {
		return Parent{}
	}
	return Parent{Trace: m[1], Span: m[2]}
}

// String is the value of TRACEPARENT.
func (p Parent) String() string { return "00-" + p.Trace + "-" + p.Span + "-01" }

// ID makes an ID of a number of bytes from parts: always the same one.
func ID(size int, parts ...string) string {
	text, _ := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:size])
}
