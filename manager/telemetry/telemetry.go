// Package telemetry sends what a manager does to an OpenTelemetry collector: a span for each job, with what it did below it, and the lines of the
// manager's own log. The logs of jobs are GitLab's.
//
//	job                    its trace ID follows from its number in GitLab: another process that takes it over continues the same trace
//	├── prepare
//	├── run                TRACEPARENT of the job: what its scripts send is below it, too
//	│   └── the steps      from the job's own trace
//	└── upload
//
// Sending never holds up a job: what a collector does not take in time is dropped, and that is logged.
package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rungci/rung/internal/otlp"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

const (
	// queued is how many items wait to be sent; more are dropped.
	queued = 4096
	// flushEvery is how often they are sent, or when there are batch of them.
	flushEvery = time.Second
	batch      = 512
	// closing bounds what Close waits for.
	closing = 5 * time.Second
)

// Options are those of an Exporter.
type Options struct {
	// Getenv is where the variables of OpenTelemetry are; Endpoint is the base address of the collector if they name none.
	Getenv            func(string) string
	Endpoint          string
	Version, SystemID string
	// Log is told when signals are lost, and when they are taken again. It must not be one of Handler.
	Log *slog.Logger
}

// Exporter sends signals. Its methods are safe for concurrent use, and those of nil do nothing.
type Exporter struct {
	traces, logs *otlp.Collector // nil is nowhere
	resource     otlp.Resource
	scope        otlp.Scope
	log          *slog.Logger

	items chan any        // *otlp.Span, *otlp.LogRecord, document
	life  context.Context // of all sending; ends with Close, after closing
	cut   context.CancelFunc
	end   chan struct{}
	ended chan struct{}
	once  sync.Once

	mu      sync.Mutex
	dropped int
}

// document is a message about spans that is encoded already.
type document []byte

// New makes an exporter; it is nil if nothing says where signals go.
func New(o Options) (*Exporter, error) {
	traces, err := otlp.CollectorOf(o.Getenv, otlp.SignalTraces, o.Endpoint)
	logs, err2 := otlp.CollectorOf(o.Getenv, otlp.SignalLogs, o.Endpoint)
	if err := cmp.Or(err, err2); err != nil || traces == nil && logs == nil {
		return nil, err
	}
	host, _ := os.Hostname()
	attributes := otlp.Texts("service.name", cmp.Or(o.Getenv("OTEL_SERVICE_NAME"), "rung"), "service.version", o.Version, "service.instance.id", o.SystemID,
		"host.name", host, "host.arch", runtime.GOARCH, "os.type", runtime.GOOS)
	given := otlp.Pairs(o.Getenv("OTEL_RESOURCE_ATTRIBUTES"))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		attributes = slices.DeleteFunc(attributes, func(a otlp.Attribute) bool {
			return a.Key == key && (key != "service.name" || o.Getenv("OTEL_SERVICE_NAME") == "")
		})
		if !slices.ContainsFunc(attributes, func(a otlp.Attribute) bool { return a.Key == key }) {
			attributes = append(attributes, otlp.Texts(key, given[key])...)
		}
	}
	e := &Exporter{
		traces: traces, logs: logs, resource: otlp.Resource{Attributes: attributes}, scope: otlp.Scope{Name: "github.com/rungci/rung", Version: o.Version},
		log: o.Log, items: make(chan any, queued), end: make(chan struct{}), ended: make(chan struct{}),
	}
	e.life, e.cut = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// Traces reports whether spans are sent.
func (e *Exporter) Traces() bool { return e != nil && e.traces != nil }

// Close sends what is left.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	e.once.Do(func() { close(e.end) })
	defer time.AfterFunc(closing, e.cut).Stop()
	<-e.ended
}

func (e *Exporter) put(item any) {
	select {
	case e.items <- item:
	default:
		e.mu.Lock()
		e.dropped++
		e.mu.Unlock()
	}
}

// pending is what is sent next.
type pending struct {
	spans     []*otlp.Span
	records   []*otlp.LogRecord
	documents []document
}

func (p *pending) add(item any) {
	switch item := item.(type) {
	case *otlp.Span:
		p.spans = append(p.spans, item)
	case *otlp.LogRecord:
		p.records = append(p.records, item)
	case document:
		p.documents = append(p.documents, item)
	}
}

// run sends what comes, until Close.
func (e *Exporter) run() {
	defer close(e.ended)
	defer e.cut()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var next pending
	failed := false
	send := func() {
		err := e.send(e.life, &next)
		next = pending{}
		if err != nil && !failed {
			e.log.Warn("telemetry is lost: the OpenTelemetry collector does not take it", "error", err)
		}
		if err == nil && failed {
			e.log.Info("the OpenTelemetry collector takes telemetry again")
		}
		failed = err != nil
	}
	for {
		select {
		case item := <-e.items:
			if next.add(item); len(next.spans)+len(next.records)+len(next.documents) >= batch {
				send()
			}
		case <-tick.C:
			if len(next.spans)+len(next.records)+len(next.documents) > 0 {
				send()
			}
		case <-e.end:
			for {
				select {
				case item := <-e.items:
					next.add(item)
					continue
				default:
				}
				send()
				return
			}
		}
	}
}

func (e *Exporter) send(ctx context.Context, p *pending) error {
	var wrong []error
	e.mu.Lock()
	if e.dropped > 0 {
		wrong = append(wrong, errors.New(strconv.Itoa(e.dropped)+" spans and records came faster than they could be sent"))
		e.dropped = 0
	}
	e.mu.Unlock()
	if len(p.spans) > 0 {
		wrong = append(wrong, e.traces.Send(ctx, otlp.Traces{ResourceSpans: []otlp.ResourceSpans{{
			Resource: e.resource, ScopeSpans: []otlp.ScopeSpans{{Scope: e.scope, Spans: p.spans}}, SchemaURL: otlp.Schema,
		}}}))
	}
	for _, d := range p.documents {
		wrong = append(wrong, e.traces.Post(ctx, d))
	}
	if len(p.records) > 0 {
		wrong = append(wrong, e.logs.Send(ctx, otlp.Logs{ResourceLogs: []otlp.ResourceLogs{{
			Resource: e.resource, ScopeLogs: []otlp.ScopeLogs{{Scope: e.scope, Records: p.records}}, SchemaURL: otlp.Schema,
		}}}))
	}
	return errors.Join(wrong...)
}

// Job is one that has ended.
type Job struct {
	GitLab string // its address
	ID     int64
	// Given is GitLab's own trace that the job is a part of; nil is none.
	Given    *gitlab.Tracing
	Identity event.Identity
	URL      string // of its page
	Level    string
	Runner   string
	// Result is in the words of cicd.pipeline.result. Reason is GitLab's failure reason, and Error what people read; empty for a success.
	Result, Reason, Error string
	ExitCode              int
	// Began and Ended are those of the whole job. Prepared is when its environment was there, and Ran when its steps had ended; zero is never.
	Began, Prepared, Ran, Ended time.Time
}

var traceID, spanID = regexp.MustCompile(`^[0-9a-f]{32}$`), regexp.MustCompile(`^[0-9a-f]{16}$`)

// Run is the span that the steps of a job are below.
func Run(server string, id int64, given *gitlab.Tracing) otlp.Parent {
	text := strconv.FormatInt(id, 10)
	run := otlp.Parent{Trace: otlp.ID(16, "job", server, text), Span: otlp.ID(8, "job", server, text, "run")}
	if given != nil && traceID.MatchString(given.TraceID) {
		run.Trace = given.TraceID
	}
	return run
}

// Job sends the spans of a job.
func (e *Exporter) Job(j Job) {
	if !e.Traces() {
		return
	}
	run := Run(j.GitLab, j.ID, j.Given)
	id := strconv.FormatInt(j.ID, 10)
	whole := &otlp.Span{
		TraceID: run.Trace, SpanID: otlp.ID(8, "job", j.GitLab, id), Name: "job " + cmp.Or(j.Identity.Job, id), Kind: otlp.Server,
		Start: otlp.Nanoseconds(j.Began), End: otlp.Nanoseconds(j.Ended),
		Attributes: otlp.Texts("cicd.pipeline.name", j.Identity.Project, "cicd.pipeline.run.id", j.Identity.PipelineID, "cicd.pipeline.task.name", j.Identity.Job, "cicd.pipeline.task.run.id", id,
			"cicd.pipeline.task.run.url.full", j.URL, "cicd.pipeline.task.run.result", j.Result, "cicd.worker.name", j.Runner, "rung.level", j.Level, "error.type", j.Reason),
	}
	if j.Given != nil && spanID.MatchString(j.Given.SpanParentID) && run.Trace == j.Given.TraceID {
		whole.Parent = j.Given.SpanParentID
	}
	switch j.Result {
	case "success":
		whole.Status.Code = otlp.OK
	case "failure", "error", "timeout":
		whole.Status = otlp.Status{Code: otlp.Error, Message: j.Error}
		whole.Number("process.exit.code", int64(j.ExitCode))
	}
	e.put(whole)
	part := func(name, id string, from, to time.Time) {
		if !from.IsZero() && to.After(from) {
			e.put(&otlp.Span{TraceID: run.Trace, SpanID: id, Parent: whole.SpanID, Name: name, Kind: otlp.Internal, Start: otlp.Nanoseconds(from), End: otlp.Nanoseconds(to)})
		}
	}
	ran := j.Ran
	if ran.IsZero() {
		ran = j.Ended
	}
	prepared := j.Prepared
	if prepared.IsZero() {
		prepared = ran
	}
	part("prepare", otlp.ID(8, "job", j.GitLab, id, "prepare"), j.Began, prepared)
	part("run", run.Span, j.Prepared, ran)
	part("upload", otlp.ID(8, "job", j.GitLab, id, "upload"), j.Ran, j.Ended)
}

// Steps sends the spans of the steps of a job, from the trace in a file.
func (e *Exporter) Steps(file string, below otlp.Parent) error {
	if !e.Traces() {
		return nil
	}
	t, err := trace.Read(file)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := trace.WriteSpans(&body, []*trace.Trace{t}, below); err != nil {
		return err
	}
	e.put(document(body.Bytes()))
	return nil
}
