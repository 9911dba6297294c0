package gitlab

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// plan makes jobs of a short notation: each with a stage and what changes it.
type planned struct {
	name  string
	stage int
	with  func(*pipeline.Job)
}

func needs(jobs map[string]*pipeline.Job, names ...string) []pipeline.Edge {
	edges := []pipeline.Edge{}
	for _, name := range names {
		edges = append(edges, pipeline.Edge{Job: jobs[name], Artifacts: true})
	}
	return edges
}

func TestTheOrderOfJobs(t *testing.T) {
	optional := keyword.AllowFailure{Set: true, Always: true}
	for _, test := range []struct {
		name   string
		jobs   []planned
		needs  map[string][]string // the needs of jobs; none is the order of stages
		fail   []string
		start  []string // manual jobs that are started
		chosen []string // nil is all
		want   map[string]local.Status
	}{
		{
			name: "a stage runs after the one before",
			jobs: []planned{{name: "a"}, {name: "b", stage: 1}},
			want: map[string]local.Status{"a": local.Success, "b": local.Success},
		},
		{
			name: "a failure ends the stages after it, and not its own",
			jobs: []planned{{name: "a"}, {name: "a2"}, {name: "b", stage: 1}, {name: "c", stage: 2}},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Failed, "a2": local.Success, "b": local.Skipped, "c": local.Skipped},
		},
		{
			name: "when: on_failure runs after a failure, always runs always",
			jobs: []planned{
				{name: "a"},
				{name: "b", stage: 1, with: func(j *pipeline.Job) { j.When = when.OnFailure }},
				{name: "c", stage: 2, with: func(j *pipeline.Job) { j.When = when.Always }},
			},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Failed, "b": local.Success, "c": local.Success},
		},
		{
			name: "when: on_failure does not run after success",
			jobs: []planned{{name: "a"}, {name: "b", stage: 1, with: func(j *pipeline.Job) { j.When = when.OnFailure }}, {name: "c", stage: 2}},
			want: map[string]local.Status{"a": local.Success, "b": local.Skipped, "c": local.Success},
		},
		{
			name: "a failure that is allowed ends nothing",
			jobs: []planned{{name: "a", with: func(j *pipeline.Job) { j.AllowFailure = optional }}, {name: "b", stage: 1}},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Allowed, "b": local.Success},
		},
		{
			name:  "needs run across stages, and a failure elsewhere does not matter to them",
			jobs:  []planned{{name: "a"}, {name: "x"}, {name: "b", stage: 1}, {name: "c", stage: 2}},
			needs: map[string][]string{"b": {"a"}, "c": {"b"}},
			fail:  []string{"x"},
			want:  map[string]local.Status{"a": local.Success, "x": local.Failed, "b": local.Success, "c": local.Success},
		},
		{
			name:  "a job whose need failed does not run, nor does what needs that",
			jobs:  []planned{{name: "a"}, {name: "b", stage: 1}, {name: "c", stage: 2}},
			needs: map[string][]string{"b": {"a"}, "c": {"b"}},
			fail:  []string{"a"},
			want:  map[string]local.Status{"a": local.Failed, "b": local.Skipped, "c": local.Skipped},
		},
		{
			name:  "an empty list of needs waits for nothing",
			jobs:  []planned{{name: "a"}, {name: "b", stage: 1}},
			needs: map[string][]string{"b": {}},
			fail:  []string{"a"},
			want:  map[string]local.Status{"a": local.Failed, "b": local.Success},
		},
		{
			name: "a manual job that may fail holds up nothing",
			jobs: []planned{
				{name: "a", with: func(j *pipeline.Job) { j.When, j.AllowFailure = when.Manual, optional }},
				{name: "b", stage: 1},
			},
			want: map[string]local.Status{"a": local.Manual, "b": local.Success},
		},
		{
			name: "a manual job that may not fail blocks what comes later, always or not",
			jobs: []planned{
				{name: "a", with: func(j *pipeline.Job) { j.When = when.Manual }},
				{name: "b", stage: 1},
				{name: "c", stage: 1, with: func(j *pipeline.Job) { j.When = when.Always }},
			},
			want: map[string]local.Status{"a": local.Manual, "b": local.Skipped, "c": local.Skipped},
		},
		{
			name:  "and does not when it is started",
			jobs:  []planned{{name: "a", with: func(j *pipeline.Job) { j.When = when.Manual }}, {name: "b", stage: 1}},
			start: []string{"a"},
			want:  map[string]local.Status{"a": local.Success, "b": local.Success},
		},
		{
			name: "a manual job after a failure is skipped",
			jobs: []planned{{name: "a"}, {name: "b", stage: 1, with: func(j *pipeline.Job) { j.When = when.Manual }}},
			fail: []string{"a"}, start: []string{"b"},
			want: map[string]local.Status{"a": local.Failed, "b": local.Skipped},
		},
		{
			name: "what needs a manual job that was not started does not run",
			jobs: []planned{
				{name: "a", with: func(j *pipeline.Job) { j.When, j.AllowFailure = when.Manual, optional }},
				{name: "b", stage: 1},
			},
			needs: map[string][]string{"b": {"a"}},
			want:  map[string]local.Status{"a": local.Manual, "b": local.Skipped},
		},
		{
			name:   "jobs that are not chosen are as good as done",
			jobs:   []planned{{name: "a"}, {name: "b", stage: 1}, {name: "c", stage: 2}},
			needs:  map[string][]string{"c": {"a", "b"}},
			chosen: []string{"c"},
			want:   map[string]local.Status{"c": local.Success},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			byName := map[string]*pipeline.Job{}
			var jobs []*pipeline.Job
			for _, p := range test.jobs {
				j := &pipeline.Job{Name: p.name, Group: p.name, StageIndex: p.stage, When: when.OnSuccess}
				if p.with != nil {
					p.with(j)
				}
				byName[p.name] = j
				if test.chosen == nil || contains(test.chosen, p.name) {
					jobs = append(jobs, j)
				}
			}
			for name, list := range test.needs {
				byName[name].Needs = needs(byName, list...)
			}
			var mu sync.Mutex
			reported := map[string]int{}
			s := &schedule{
				jobs: jobs,
				unit: running(func(_ context.Context, j *pipeline.Job) local.Result {
					status := local.Success
					if contains(test.fail, j.Name) {
						if status = local.Failed; j.AllowFailure.Always {
							status = local.Allowed
						}
					}
					return local.Result{Status: status, Attempts: 1}
				}),
				manual: func(j *pipeline.Job) bool { return contains(test.start, j.Name) },
			}
			got := map[string]local.Status{}
			for _, r := range s.all(t.Context(), 4, func(r local.Result) { mu.Lock(); reported[r.Name]++; mu.Unlock() }) {
				got[r.Name] = r.Status
				if r.Attempts == 0 && r.Note == "" {
					t.Errorf("%s did not run, and nothing says why", r.Name)
				}
				if reported[r.Name] != 1 {
					t.Errorf("%s was reported %d times", r.Name, reported[r.Name])
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// running makes units that are run by a function.
func running(run func(context.Context, *pipeline.Job) local.Result) func(*pipeline.Job) *local.Unit {
	return func(j *pipeline.Job) *local.Unit {
		return &local.Unit{Run: func(ctx context.Context, _ int) local.Result { return run(ctx, j) }}
	}
}

func contains(list []string, name string) bool {
	for _, n := range list {
		if n == name {
			return true
		}
	}
	return false
}

func TestJobsOfAStageRunAtTheSameTime(t *testing.T) {
	both := make(chan struct{}, 2)
	meet := func(context.Context, *pipeline.Job) local.Result {
		both <- struct{}{}
		for len(both) < 2 {
			select {
			case <-t.Context().Done():
				return local.Result{Status: local.Failed}
			default:
			}
		}
		return local.Result{Status: local.Success}
	}
	s := &schedule{jobs: []*pipeline.Job{{Name: "a"}, {Name: "b"}}, unit: running(meet), manual: func(*pipeline.Job) bool { return false }}
	for _, r := range s.all(t.Context(), 4, func(local.Result) {}) {
		if r.Status != local.Success {
			t.Errorf("%s: %s", r.Name, r.Status)
		}
	}
}

func TestStoppingAPipelineCancelsWhatHasNotBegun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &schedule{
		jobs: []*pipeline.Job{{Name: "a"}, {Name: "b", StageIndex: 1, When: when.Always}},
		unit: running(func(ctx context.Context, _ *pipeline.Job) local.Result {
			cancel()
			<-ctx.Done()
			return local.Result{Status: local.Cancelled, Attempts: 1}
		}),
		manual: func(*pipeline.Job) bool { return false },
	}
	for _, r := range s.all(ctx, 4, func(local.Result) {}) {
		if r.Status != local.Cancelled {
			t.Errorf("%s: %s", r.Name, r.Status)
		}
	}
}

func TestAFailureStopsThePipelineWhereItSaysSo(t *testing.T) {
	s := &schedule{
		jobs: []*pipeline.Job{{Name: "fails"}, {Name: "waits"}, {Name: "later", StageIndex: 1, When: when.Always}},
		unit: running(func(ctx context.Context, j *pipeline.Job) local.Result {
			if j.Name == "fails" {
				return local.Result{Status: local.Failed, Attempts: 1}
			}
			<-ctx.Done()
			return local.Result{Status: local.Cancelled, Attempts: 1}
		}),
		manual:        func(*pipeline.Job) bool { return false },
		stopOnFailure: true,
	}
	got := fmt.Sprint(s.all(t.Context(), 4, func(local.Result) {})[1].Status, " ", s.all(t.Context(), 4, func(local.Result) {})[2].Status)
	if got != "cancelled cancelled" {
		t.Error(got)
	}
}
