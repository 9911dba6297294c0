package fleet

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/exposition"
	"github.com/rungci/rung/manager/config"
)

// Metrics are numbers about a fleet, as the metrics of gitlab-runner's autoscaler have them.
type Metrics struct {
	// Instances are machines by state, and Tasks slots by what they do.
	Instances, Tasks                map[string]int
	MaxInstances, MaxTasks, MaxUses int
	// Operations and TaskOperations are how often something happened to machines and to jobs, by name; Scaled how often it grew or shrank.
	Operations, TaskOperations, Scaled map[string]int64
	// How long things took that ended, from the request of a machine on.
	Creation, Running, Deletion, Readiness, Life *exposition.Histogram
}

// bounds are the buckets of histograms that the configuration does not set, in seconds.
var bounds = []float64{1, 2.5, 5, 10, 30, 60, 120, 180, 300, 600, 900, 1800}

// lives are those of how long machines exist.
var lives = []float64{60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 604800}

// jobs are what of a history is about jobs, as metrics call it.
var jobs = map[store.Kind]string{store.Place: "acquire", store.Over: "release", store.Ended: "lost"}

// meter counts what happens in a fleet.
type meter struct {
	mu       sync.Mutex
	of       Metrics
	deleting map[string]time.Time // when machines began to be deleted, by request
}

func newMeter(m *config.Machinery) *meter {
	a := m.Autoscaler
	if a == nil {
		a = &config.Autoscaler{}
	}
	histogram := func(own, general, otherwise []float64) *exposition.Histogram {
		switch {
		case len(own) > 0:
			return exposition.NewHistogram(own)
		case len(general) > 0:
			return exposition.NewHistogram(general)
		}
		return exposition.NewHistogram(otherwise)
	}
	return &meter{deleting: map[string]time.Time{}, of: Metrics{
		Operations: map[string]int64{}, TaskOperations: map[string]int64{}, Scaled: map[string]int64{"up": 0, "down": 0},
		Creation: histogram(a.CreationBuckets, a.OperationBuckets, bounds), Running: histogram(a.RunningBuckets, a.OperationBuckets, bounds),
		Deletion: histogram(a.DeletionBuckets, a.OperationBuckets, bounds), Readiness: histogram(a.ReadinessBuckets, a.OperationBuckets, bounds),
		Life: histogram(a.LifeBuckets, nil, lives),
	}}
}

// count counts what happened.
func (m *meter) count(e store.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := jobs[e.Kind]; of != "" {
		m.of.TaskOperations[of]++
	} else {
		m.of.Operations[string(e.Kind)]++
	}
	switch e.Kind {
	case store.Create:
		m.of.Scaled["up"]++
	case store.Delete:
		m.of.Scaled["down"]++
		m.deleting[e.Request] = e.At
	case store.Ready:
		for _, h := range []*exposition.Histogram{m.of.Creation, m.of.Running, m.of.Readiness} { // the first list that has a machine is not told apart
			h.Observe(e.At.Sub(e.Began))
		}
	case store.Gone:
		if began, known := m.deleting[e.Request]; known {
			delete(m.deleting, e.Request)
			m.of.Deletion.Observe(e.At.Sub(began))
		}
		m.of.Life.Observe(e.At.Sub(e.Began))
	}
}

// now is a copy.
func (m *meter) now() Metrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.of
	out.Operations, out.TaskOperations, out.Scaled = maps.Clone(out.Operations), maps.Clone(out.TaskOperations), maps.Clone(out.Scaled)
	out.Creation, out.Running, out.Deletion, out.Readiness, out.Life = out.Creation.Clone(), out.Running.Clone(), out.Deletion.Clone(), out.Readiness.Clone(), out.Life.Clone()
	return out
}

// replaceKey replaces the key of a job in a sentence.
func replaceKey(sentence, key, by string) string {
	return strings.ReplaceAll(sentence, cmp.Or(key, sentence), by)
}
