package service

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/internal/exposition"
	"github.com/rungci/rung/steps/event"
)

// durationBounds are the upper bounds of the buckets of the durations of runs, in seconds.
var durationBounds = []float64{1, 5, 15, 60, 300, 900, 3600, 14400, 86400}

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
	durations [len(endings)]*exposition.Histogram // nil before the first
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
		if end.status != status {
			continue
		}
		if m.durations[i] == nil {
			m.durations[i] = exposition.NewHistogram(durationBounds)
		}
		m.durations[i].Observe(took)
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
	p := exposition.NewWriter(w)
	p.Family("step_runner_runs", exposition.Gauge, "Runs that the server knows, by state. Finished ones are kept for their clients.")
	p.Sample("step_runner_runs", `state="running"`, float64(runningNow))
	p.Sample("step_runner_runs", `state="paused"`, float64(paused))
	p.Sample("step_runner_runs", `state="finished"`, float64(finished))
	p.Family("step_runner_runs_started_total", exposition.Counter, "Runs that were started.")
	p.Sample("step_runner_runs_started_total", "", float64(s.metrics.started.Load()))
	p.Family("step_runner_log_bytes_total", exposition.Counter, "Bytes that steps wrote to logs.")
	p.Sample("step_runner_log_bytes_total", "", float64(s.metrics.logBytes.Load()))
	p.Family("step_runner_followers", exposition.Gauge, "Open streams of logs and events.")
	p.Sample("step_runner_followers", "", float64(followers))
	p.Family("step_runner_limit", exposition.Gauge, "Limits of the server, by flag.")
	p.Sample("step_runner_limit", `flag="max-runs"`, float64(s.limits.Runs))
	p.Sample("step_runner_limit", `flag="max-followers"`, float64(s.limits.Followers))
	p.Family("step_runner_limit_reached_total", exposition.Counter, "How often a limit was reached, by flag.")
	for i := range s.metrics.reached {
		p.Sample("step_runner_limit_reached_total", `flag="`+limitFlags[i]+`"`, float64(s.metrics.reached[i].Load()))
	}
	p.Family("step_runner_run_duration_seconds", exposition.Durations, "How long runs took, by status.")
	s.metrics.mu.Lock()
	for i, status := range endings {
		h := s.metrics.durations[i]
		if h == nil {
			h = exposition.NewHistogram(durationBounds)
		}
		p.Histogram("step_runner_run_duration_seconds", exposition.Labels("status", string(status)), h)
	}
	s.metrics.mu.Unlock()
	return p.Flush()
}

// MetricsHandler serves the metrics at /metrics.
func (s *Service) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		_ = s.WriteMetrics(&page) // a buffer takes everything
		w.Header().Set("Content-Type", exposition.ContentType)
		_, _ = page.WriteTo(w)
	})
	return mux
}
