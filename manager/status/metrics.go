package status

import (
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rungci/rung/internal/exposition"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/supply"
)

// The bounds of histograms. Source: gitlab-runner's, so that dashboards keep their lines.
var (
	durationBounds = []float64{30, 60, 300, 600, 1800, 3600, 7200, 10800, 18000, 36000}
	queueBounds    = []float64{1, 3, 10, 30, 60, 120, 300, 900, 1800, 3600}
	requestBounds  = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120}
)

// prefix begins the names that gitlab-runner has too, and mean the same there.
const prefix = "gitlab_runner_"

// counters are the values of one family, by their labels.
type counters map[string]float64

// histograms are those of one family, by their labels.
type histograms struct {
	bounds []float64
	of     map[string]*exposition.Histogram
}

func newHistograms(bounds []float64) histograms {
	return histograms{bounds, map[string]*exposition.Histogram{}}
}

func (h histograms) get(labels string) *exposition.Histogram {
	if h.of[labels] == nil {
		h.of[labels] = exposition.NewHistogram(h.bounds)
	}
	return h.of[labels]
}

// metrics are counted since the start of the process. What is there now is asked of the manager.
type metrics struct {
	mu                                       sync.Mutex
	jobs, failed, adopted, statuses, retries counters
	rests, errors, loads, late, size, depth  counters
	modes                                    counters
	durations, queued, exchanges             histograms
}

func newMetrics() metrics {
	return metrics{
		jobs: counters{}, failed: counters{}, adopted: counters{}, statuses: counters{}, retries: counters{}, rests: counters{},
		errors: counters{exposition.Labels("level", "error"): 0, exposition.Labels("level", "warning"): 0}, loads: counters{"": 0, "error": 0},
		late: counters{}, size: counters{}, depth: counters{}, modes: counters{},
		durations: newHistograms(durationBounds), queued: newHistograms(queueBounds), exchanges: newHistograms(requestBounds),
	}
}

// labelsOf are the labels of an entry, with more before them.
func labelsOf(e manager.Entry, more ...string) string {
	return exposition.Labels(append(more, "runner", e.Token, "runner_name", e.Name, "system_id", e.SystemID)...)
}

func (m *metrics) began(job manager.Running, waited manager.Waited) {
	m.mu.Lock()
	defer m.mu.Unlock()
	labels := labelsOf(job.Entry)
	if job.Adopted {
		m.adopted[labels]++
		return // it was counted by the process that took it
	}
	m.jobs[labels]++
	m.modes[exposition.Labels("mode", "steps", "executor", job.Entry.Executor)]++
	m.queued.get(exposition.Labels("runner", job.Entry.Token, "runner_name", job.Entry.Name, "system_id", job.Entry.SystemID, "project_jobs_running", waited.Running)).Observe(waited.InQueue)
	m.size[labels], m.depth[labels] = float64(waited.Size), float64(waited.Depth)
	if m.late[labels] += 0; waited.Late { // a runner without late jobs has a line, too
		m.late[labels]++
	}
}

func (m *metrics) finished(job manager.Running, end manager.End) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.durations.get(labelsOf(job.Entry)).Observe(end.Took)
	switch end.State {
	case gitlab.Failed:
		m.failed[labelsOf(job.Entry, "failure_reason", end.FailureReason, "mode", "steps")]++
	case gitlab.Canceled:
		m.failed[labelsOf(job.Entry, "failure_reason", "job_canceled", "mode", "steps")]++
	}
}

// endpoints are the names that gitlab-runner has for the endpoints of the API.
var endpoints = map[string]string{
	"POST /jobs/request": "request_job", "PUT /jobs/{id}": "update_job", "PATCH /jobs/{id}/trace": "patch_trace",
	"POST /jobs/{id}/artifacts": "upload_artifacts", "POST /runners/verify": "verify_runner",
}

// Attempted implements manager.Observer.
func (b *Board) Attempted(of manager.Entry, a gitlab.Attempt) {
	m := &b.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	at := strings.TrimPrefix(a.Endpoint, "/api/v4")
	endpoint := endpoints[a.Method+" "+at]
	if endpoint == "" {
		endpoint = strings.ReplaceAll(path.Base(at), "{id}", "other")
	}
	status := strconv.Itoa(a.Status)
	if a.Status == 0 {
		status = "-100" // as gitlab-runner calls a request without an answer
	}
	method := strings.ToLower(a.Method)
	m.statuses[exposition.Labels("runner", of.Token, "system_id", of.SystemID, "endpoint", endpoint, "status", status, "method", method)]++
	m.exchanges.get(exposition.Labels("runner", of.Token, "system_id", of.SystemID, "endpoint", endpoint)).Observe(a.Duration)
	if a.Repeated {
		m.retries[exposition.Labels("path", a.Endpoint, "method", method)]++
	}
}

// Rests implements manager.Observer.
func (b *Board) Rests(of manager.Entry) {
	b.metrics.mu.Lock()
	defer b.metrics.mu.Unlock()
	b.metrics.rests[labelsOf(of)]++
}

// Unable implements manager.Observer. How an entry is, State says.
func (b *Board) Unable(manager.Entry, error) {}

// loaded counts a configuration that was read, or could not be.
func (m *metrics) loaded(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.loads["error"]++
		return
	}
	m.loads[""]++
}

func (m *metrics) logged(level string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[exposition.Labels("level", level)]++
}

// WriteMetrics writes the metrics for Prometheus.
func (b *Board) WriteMetrics(to io.Writer) error {
	w := exposition.NewWriter(to)
	state := b.state()
	b.writeState(w, state)
	m := &b.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	list := func(name string, kind exposition.Kind, help string, c counters) {
		w.Family(name, kind, help)
		for _, labels := range slices.Sorted(maps.Keys(c)) {
			w.Sample(name, labels, c[labels])
		}
	}
	count := func(name, help string, c counters) { list(name, exposition.Counter, help, c) }
	spread := func(name, help string, h histograms) {
		w.Family(name, exposition.Durations, help)
		for _, labels := range slices.Sorted(maps.Keys(h.of)) {
			w.Histogram(name, labels, h.of[labels])
		}
	}
	count(prefix+"jobs_total", "Jobs that GitLab has handed out.", m.jobs)
	count(prefix+"failed_jobs_total", "Jobs that failed, by the reason that GitLab was told.", m.failed)
	count(prefix+"job_execution_mode_total", "The same, by how they run, which is always as steps, and by executor.", m.modes)
	count("rung_jobs_adopted_total", "Jobs that were taken over from the process before.", m.adopted)
	spread(prefix+"job_duration_seconds", "How long jobs took.", m.durations)
	spread(prefix+"job_queue_duration_seconds", "How long jobs waited for a runner, as GitLab says.", m.queued)
	list(prefix+"job_queue_size", exposition.Gauge, "How many jobs were in the queue when the last one was handed out, as GitLab says.", m.size)
	list(prefix+"job_queue_depth", exposition.Gauge, "How far into the queue GitLab looked for it.", m.depth)
	count(prefix+"acceptable_job_queuing_duration_exceeded_total", "Jobs that waited longer than [runners.monitoring] accepts.", m.late)
	count(prefix+"api_request_statuses_total", "Requests to GitLab, by the status of the answer; -100 is none.", m.statuses)
	spread(prefix+"api_request_duration_seconds", "How long requests to GitLab took.", m.exchanges)
	count(prefix+"api_request_retries_total", "Requests to GitLab that were made again.", m.retries)
	count(prefix+"worker_health_check_failures_total", "How often a runner stopped asking because GitLab refused it or did not answer.", m.rests)
	count(prefix+"errors_total", "Lines of the manager's own log, by level.", m.errors)
	w.Family(prefix+"configuration_loaded_total", exposition.Counter, "How often the configuration was read.")
	w.Sample(prefix+"configuration_loaded_total", "", m.loads[""])
	w.Family(prefix+"configuration_loading_error_total", exposition.Counter, "How often it could not be read.")
	w.Sample(prefix+"configuration_loading_error_total", "", m.loads["error"])
	return w.Flush()
}

// writeState writes what is there now.
func (b *Board) writeState(w *exposition.Writer, s manager.State) {
	gauge := func(name, labels, help string, v float64) {
		w.Family(name, exposition.Gauge, help)
		w.Sample(name, labels, v)
	}
	gauge(prefix+"version_info", exposition.Labels(
		"name", "rung", "version", b.o.Version, "revision", b.o.Revision, "os", runtime.GOOS, "architecture", runtime.GOARCH, "go_version", runtime.Version(),
	), "This program; the value is always 1.", 1)
	gauge(prefix+"concurrent", "", "How many jobs may run at once.", float64(s.Concurrent))
	gauge(prefix+"worker_slots_number", "", "How many slots for jobs there are.", float64(s.Concurrent))
	gauge("rung_slots_busy", "", "How many slots are taken, by a job or by a request for one.", float64(s.Busy))
	each := func(name, help string, value func(manager.EntryStatus) float64) {
		w.Family(name, exposition.Gauge, help)
		for _, e := range s.Entries {
			w.Sample(name, labelsOf(e.Entry), value(e))
		}
	}
	each(prefix+"limit", "How many jobs of a runner may run at once; 0 is any number.", func(e manager.EntryStatus) float64 { return float64(e.Limit) })
	asking := func(name, help string, value func(manager.EntryStatus) int) { // gitlab-runner names no runner_name here
		w.Family(prefix+name, exposition.Gauge, help)
		for _, e := range s.Entries {
			w.Sample(prefix+name, exposition.Labels("runner", e.Token, "system_id", e.SystemID), float64(value(e)))
		}
	}
	asking("request_concurrency", "Requests for jobs that wait for an answer.", func(e manager.EntryStatus) int { return e.Asking })
	asking("request_concurrency_hard_limit", "How many of them may wait at once.", func(e manager.EntryStatus) int { return e.RequestConcurrency })
	asking("request_concurrency_used_limit", "The same: the limit does not adapt itself.", func(e manager.EntryStatus) int { return e.RequestConcurrency })
	each("rung_runner_healthy", "1 if the runner can run jobs and GitLab answers it.", func(e manager.EntryStatus) float64 {
		if e.Healthy() {
			return 1
		}
		return 0
	})
	running := counters{}
	for _, e := range s.Entries { // a runner without jobs has a line, too
		running[labelsOf(e.Entry, "state", "idle", "level", "")] = 0
	}
	for _, j := range s.Jobs {
		running[labelsOf(j.Entry, "state", "running", "level", string(j.Level))]++
	}
	w.Family(prefix+"jobs", exposition.Gauge, "Jobs that run now, by their level of isolation.")
	for _, labels := range slices.Sorted(maps.Keys(running)) {
		w.Sample(prefix+"jobs", labels, running[labels])
	}
	b.writeMachines(w, s)
	writeFleets(w, s)
	if s.Disk != nil {
		writeDisk(w, s.Disk)
	}
	gauge("go_goroutines", "", "Goroutines of this program.", float64(runtime.NumGoroutine()))
	gauge("process_start_time_seconds", "", "When this program started, in seconds since 1970.", float64(b.started.UnixMilli())/1000)
}

// writeMachines writes what the providers of entries have.
func (b *Board) writeMachines(w *exposition.Writer, s manager.State) {
	each := func(name, help string, value func(*supply.Status) int) {
		w.Family(name, exposition.Gauge, help)
		for _, e := range s.Entries {
			if e.Machines != nil {
				w.Sample(name, labelsOf(e.Entry), float64(value(e.Machines)))
			}
		}
	}
	each("rung_machines_free", "How many more jobs the provider of a runner's machines has room for.", func(m *supply.Status) int { return m.Free })
	each("rung_machines_reserved", "Places that are kept for a job, and have no machine yet.", func(m *supply.Status) int { return m.Reserved })
	each("rung_machines_used", "Places that have a machine.", func(m *supply.Status) int { return m.Used })
}

// writeDisk writes what is stored on the machine for later jobs.
func writeDisk(w *exposition.Writer, d *disk.Status) {
	family := func(name string, kind exposition.Kind, help, label string, values map[string]int64) {
		w.Family(name, kind, help)
		for _, of := range slices.Sorted(maps.Keys(values)) {
			w.Sample(name, exposition.Labels(label, of), float64(values[of]))
		}
	}
	one := func(name, help string, v int64) {
		w.Family(name, exposition.Gauge, help)
		w.Sample(name, "", float64(v))
	}
	waiting, things, bytes := int64(0), map[string]int64{}, map[string]int64{}
	if d.Waiting != "" {
		waiting = 1
	}
	for kind := range d.Used { // one that nothing was removed of has a line, too
		things[kind], bytes[kind] = int64(d.Removed[kind].Things), d.Removed[kind].Bytes
	}
	one("rung_disk_budget_bytes", "How much may be stored for later jobs; 0 is any amount.", d.Budget)
	one("rung_disk_keep_free_bytes", "How much stays free on each disk; 0 is nothing.", d.KeepFree)
	family("rung_disk_used_bytes", exposition.Gauge, "What is stored for later jobs, as it was looked at last.", "kind", d.Used)
	family("rung_disk_free_bytes", exposition.Gauge, "What is free on the disks of these folders, as it was looked at last.", "folder", d.Free)
	family("rung_disk_removed_total", exposition.Counter, "What was removed for want of space.", "kind", things)
	family("rung_disk_removed_bytes_total", exposition.Counter, "How much that was.", "kind", bytes)
	one("rung_disk_waiting", "1 if no jobs are asked for, because there is no room on a disk.", waiting)
}
