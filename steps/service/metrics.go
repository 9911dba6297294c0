package service

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/steps/event"
)

// durationBounds are the upper bounds of the buckets of the durations of runs, in seconds.
var durationBounds = [...]float64{1, 5, 15, 60, 300, 900, 3600, 14400, 86400}

// endings are how runs end, in the order in which they are written.
var endings = [...]event.Status{event.Success, event.Failure, event.Cancelled}

// limitKind is a limit of Limits whose excess is counted.
type limitKind int

const (
	limitRuns limitKind = iota
	limitFollowers
	limitLog
	limitDuration
	limitAbandoned
	limitPause
	limitKinds
)

// limitFlags name limits as the flags of the server do.
var limitFlags = [limitKinds]string{"max-runs", "max-followers", "max-log", "max-duration", "abandon-after", "max-pause"}

// metrics counts what a server did since it started. Only numbers of the server are in it: nothing that a client or a step says.
type metrics struct {
	started  atomic.Int64
	logBytes atomic.Int64
	reached  [limitKinds]atomic.Int64

	mu        sync.Mutex
	durations [len(endings)]histogram
}

// histogram counts durations by bucket; the last one has no bound.
type histogram struct {
	buckets [len(durationBounds) + 1]int64
	sum     float64 // in seconds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(durationBounds) && d.Seconds() > durationBounds[i] {
		i++
	}
	h.buckets[i]++
	h.sum += d.Seconds()
}

// ended counts a run that ended.
func (m *metrics) ended(r *run, end state) {
	if _, _, cut := r.log.extent(); errors.Is(cut, errLimit) {
		m.reached[limitLog].Add(1)
	}
	if e := end.err; e != nil {
		switch {
		case e.Timeout != nil && e.Timeout.Of == event.TimeoutRun && r.timeout == r.service.limits.Duration:
			m.reached[limitDuration].Add(1)
		case e.Code == event.CodeAbandoned:
			m.reached[limitAbandoned].Add(1)
		case e.Code == event.CodePausedTooLong:
			m.reached[limitPause].Add(1)
		}
	}
	took := end.finished.Sub(r.started)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, status := range endings {
		if end.status == status {
			m.durations[i].observe(took)
		}
	}
}

// WriteMetrics writes the metrics of the service in the text format of Prometheus (version 0.0.4).
func (s *Service) WriteMetrics(w io.Writer) error {
	runningNow, paused, finished := 0, 0, 0
	for _, r := range s.all() {
		switch {
		case r.finished():
			finished++
		case r.control != nil && r.heldFor(time.Now()) > 0:
			paused++
		default:
			runningNow++
		}
	}
	s.mu.Lock()
	followers := s.followers
	s.mu.Unlock()
	p := exposition{bufio.NewWriter(w)}
	p.family("step_runner_runs", "gauge", "Runs that the server knows, by state. Finished ones are kept for their clients.")
	p.sample("step_runner_runs", `state="running"`, float64(runningNow))
	p.sample("step_runner_runs", `state="paused"`, float64(paused))
	p.sample("step_runner_runs", `state="finished"`, float64(finished))
	p.family("step_runner_runs_started_total", "counter", "Runs that were started.")
	p.sample("step_runner_runs_started_total", "", float64(s.metrics.started.Load()))
	p.family("step_runner_log_bytes_total", "counter", "Bytes that steps wrote to logs.")
	p.sample("step_runner_log_bytes_total", "", float64(s.metrics.logBytes.Load()))
	p.family("step_runner_followers", "gauge", "Open streams of logs and events.")
	p.sample("step_runner_followers", "", float64(followers))
	p.family("step_runner_limit", "gauge", "Limits of the server, by flag.")
	p.sample("step_runner_limit", `flag="max-runs"`, float64(s.limits.Runs))
	p.sample("step_runner_limit", `flag="max-followers"`, float64(s.limits.Followers))
	p.family("step_runner_limit_reached_total", "counter", "How often a limit was reached, by flag.")
	for i := range s.metrics.reached {
		p.sample("step_runner_limit_reached_total", `flag="`+limitFlags[i]+`"`, float64(s.metrics.reached[i].Load()))
	}
	p.family("step_runner_run_duration_seconds", "histogram", "How long runs took, by status.")
	s.metrics.mu.Lock()
	durations := s.metrics.durations
	s.metrics.mu.Unlock()
	for i, status := range endings {
		p.histogram("step_runner_run_duration_seconds", `status="`+string(status)+`"`, durations[i])
	}
	return p.out.Flush()
}

// exposition writes families of metrics. Labels are written as they are: none comes from outside.
type exposition struct{ out *bufio.Writer }

func (p exposition) family(name, kind, help string) {
	fmt.Fprintf(p.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p exposition) sample(name, labels string, v float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(p.out, "%s%s %s\n", name, labels, number(v))
}

func (p exposition) histogram(name, labels string, h histogram) {
	total := int64(0)
	for i, n := range h.buckets {
		total += n
		bound := "+Inf"
		if i < len(durationBounds) {
			bound = number(durationBounds[i])
		}
		p.sample(name+"_bucket", labels+`,le="`+bound+`"`, float64(total))
	}
	p.sample(name+"_sum", labels, h.sum)
	p.sample(name+"_count", labels, float64(total))
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// MetricsHandler serves the metrics at /metrics.
func (s *Service) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		_ = s.WriteMetrics(&page) // a buffer takes everything
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = page.WriteTo(w)
	})
	return mux
}
