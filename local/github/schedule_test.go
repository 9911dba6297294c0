package github

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// planned is a job in short.
type planned struct {
	id    string
	needs []string
	legs  []string // none is one leg
	// condition decides over the results of all jobs before it; nil is success().
	condition func(map[string]definition.Result) bool
	settings  definition.Settings // of every leg
	failFast  bool
	parallel  int
	calls     []planned
	broken    bool // its legs cannot be computed
}

// story runs planned jobs. Legs end as fates say; one that is held waits until something cancels it.
type story struct {
	t       *testing.T
	planned map[*definition.Job]planned
	fates   map[string]local.Status
	held    map[string]bool

	mu    sync.Mutex
	order []string
	now   int
	most  int
}

func (s *story) scope(jobs []planned, caller *leg) *scope {
	var text strings.Builder
	text.WriteString("on: push\njobs:\n")
	for _, p := range jobs {
		text.WriteString("  " + p.id + ":\n    runs-on: x\n    needs: [" + strings.Join(p.needs, ", ") + "]\n    steps: [{run: 'true'}]\n")
	}
	w, err := definition.Parse("test.yml", []byte(text.String()))
	if err != nil {
		s.t.Fatal(err)
	}
	out := &scope{Workflow: w, caller: caller}
	for i, j := range w.Jobs {
		s.planned[j] = jobs[i]
		out.nodes = append(out.nodes, &node{job: j, scope: out})
	}
	return out
}

func (s *story) decide(n *node) (bool, string, *event.Error) {
	results := n.before()
	if condition := s.planned[n.job].condition; condition != nil {
		return condition(results), "if", nil
	}
	for _, r := range results {
		if r != definition.Success {
			return false, "a job before it", nil
		}
	}
	return true, "", nil
}

func (s *story) expand(n *node) (*legs, *event.Error) {
	p := s.planned[n.job]
	if p.broken {
		return nil, session.Problem(event.ErrorDefinition, "", "no matrix")
	}
	out := &legs{failFast: p.failFast, maxParallel: p.parallel}
	names := p.legs
	if names == nil {
		names = []string{p.id}
	}
	for _, name := range names {
		settings := p.settings
		l := &leg{Leg: &definition.Leg{Name: name}, Settings: &settings, name: n.scope.prefix() + name}
		if p.calls != nil {
			l.call = s.scope(p.calls, nil)
		}
		out.list = append(out.list, l)
	}
	return out, nil
}

func (s *story) run(ctx context.Context, l *leg) local.Result {
	s.mu.Lock()
	s.order = append(s.order, l.name)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.now--; s.mu.Unlock() }()
	if s.held[l.name] {
		<-ctx.Done()
		return local.Result{Status: local.Cancelled, Note: context.Cause(ctx).Error()}
	}
	if fate := s.fates[l.name]; fate != "" {
		return local.Result{Status: fate}
	}
	return local.Result{Status: local.Success, Outputs: map[string]value.Value{"by": value.OfString(l.name)}}
}

func (s *story) tell(ctx context.Context, jobs []planned, slots int) []local.Result {
	schedule := &schedule{
		slots: slots, decide: s.decide, expand: s.expand, run: s.run, report: func(local.Result) {},
		called: func(l *leg) (map[string]value.Value, *event.Error) {
			return map[string]value.Value{"from": l.call.nodes[0].outputs["by"]}, nil
		},
	}
	return schedule.all(ctx, s.scope(jobs, nil))
}

func newStory(t *testing.T) *story {
	return &story{t: t, planned: map[*definition.Job]planned{}, fates: map[string]local.Status{}, held: map[string]bool{}}
}

func statuses(results []local.Result) map[string]local.Status {
	out := map[string]local.Status{}
	for _, r := range local.Flatten(results) {
		out[r.Name] = r.Status
	}
	return out
}

func TestTheOrderOfJobs(t *testing.T) {
	always := func(map[string]definition.Result) bool { return true }
	failure := func(r map[string]definition.Result) bool {
		for _, one := range r {
			if one == definition.Failure {
				return true
			}
		}
		return false
	}
	for _, test := range []struct {
		name string
		jobs []planned
		fail []string
		held []string
		want map[string]local.Status
	}{
		{
			name: "a job runs when what it needs has succeeded",
			jobs: []planned{{id: "b", needs: []string{"a"}}, {id: "a"}},
			want: map[string]local.Status{"a": local.Success, "b": local.Success},
		},
		{
			name: "what needs a job that failed is skipped, and what needs that too",
			jobs: []planned{{id: "a"}, {id: "b", needs: []string{"a"}}, {id: "c", needs: []string{"b"}}, {id: "d"}},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Failed, "b": local.Skipped, "c": local.Skipped, "d": local.Success},
		},
		{
			name: "a job that runs always does not make those behind it forget the failure",
			jobs: []planned{{id: "a"}, {id: "b", needs: []string{"a"}, condition: always}, {id: "c", needs: []string{"b"}}},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Failed, "b": local.Success, "c": local.Skipped},
		},
		{
			name: "failure() asks about all jobs before",
			jobs: []planned{{id: "a"}, {id: "b", needs: []string{"a"}}, {id: "c", needs: []string{"b"}, condition: failure}},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Failed, "b": local.Skipped, "c": local.Success},
		},
		{
			name: "continue-on-error forgives",
			jobs: []planned{{id: "a", settings: definition.Settings{ContinueOnError: true}}, {id: "b", needs: []string{"a"}}},
			fail: []string{"a"},
			want: map[string]local.Status{"a": local.Allowed, "b": local.Success},
		},
		{
			name: "fail-fast cancels the other matrix jobs, those that run and those that wait",
			jobs: []planned{{id: "a", legs: []string{"a1", "a2", "a3", "a4"}, failFast: true}, {id: "b"}},
			fail: []string{"a1"}, held: []string{"a2"},
			want: map[string]local.Status{"a1": local.Failed, "a2": local.Cancelled, "a3": local.Cancelled, "a4": local.Cancelled, "b": local.Success},
		},
		{
			name: "without fail-fast the other legs run",
			jobs: []planned{{id: "a", legs: []string{"a1", "a2"}}, {id: "b", needs: []string{"a"}}},
			fail: []string{"a1"},
			want: map[string]local.Status{"a1": local.Failed, "a2": local.Success, "b": local.Skipped},
		},
		{
			name: "a leg that may fail does not cancel others",
			jobs: []planned{{id: "a", legs: []string{"a1", "a2"}, failFast: true, settings: definition.Settings{ContinueOnError: true}}},
			fail: []string{"a1"},
			want: map[string]local.Status{"a1": local.Allowed, "a2": local.Success},
		},
		{
			name: "a matrix that cannot be computed fails its job alone",
			jobs: []planned{{id: "a", broken: true}, {id: "b", needs: []string{"a"}}, {id: "c"}},
			want: map[string]local.Status{"a": local.Failed, "b": local.Skipped, "c": local.Success},
		},
		{
			name: "a concurrency group cancels what is in progress",
			jobs: []planned{
				{id: "a", settings: definition.Settings{Concurrency: &definition.Concurrency{Group: "G"}}},
				{id: "b", settings: definition.Settings{Concurrency: &definition.Concurrency{Group: "g", Cancel: true}}},
			},
			held: []string{"a"},
			want: map[string]local.Status{"a": local.Cancelled, "b": local.Success},
		},
		{
			name: "of those that wait for a group the last stays",
			jobs: []planned{{id: "a", legs: []string{"a1", "a2", "a3"}, settings: definition.Settings{Concurrency: &definition.Concurrency{Group: "g"}}}},
			want: map[string]local.Status{"a1": local.Success, "a2": local.Cancelled, "a3": local.Success},
		},
		{
			name: "a group that queues keeps all",
			jobs: []planned{{id: "a", legs: []string{"a1", "a2", "a3"}, settings: definition.Settings{Concurrency: &definition.Concurrency{Group: "g", Queue: true}}}},
			want: map[string]local.Status{"a1": local.Success, "a2": local.Success, "a3": local.Success},
		},
		{
			name: "the jobs of a called workflow run in the place of the one that calls",
			jobs: []planned{{id: "a", calls: []planned{{id: "x"}, {id: "y", needs: []string{"x"}}}}, {id: "b", needs: []string{"a"}}},
			want: map[string]local.Status{"a": local.Success, "a / x": local.Success, "a / y": local.Success, "b": local.Success},
		},
		{
			name: "a called workflow fails with one of its jobs",
			jobs: []planned{{id: "a", calls: []planned{{id: "x"}, {id: "y"}}}, {id: "b", needs: []string{"a"}}},
			fail: []string{"a / x"},
			want: map[string]local.Status{"a": local.Failed, "a / x": local.Failed, "a / y": local.Success, "b": local.Skipped},
		},
		{
			name: "a called job that wants the group of its caller is cancelled, and does not wait for ever",
			jobs: []planned{{
				id: "a", settings: definition.Settings{Concurrency: &definition.Concurrency{Group: "g"}},
				calls: []planned{{id: "x", settings: definition.Settings{Concurrency: &definition.Concurrency{Group: "g"}}}},
			}},
			want: map[string]local.Status{"a": local.Cancelled, "a / x": local.Cancelled},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStory(t)
			for _, name := range test.fail {
				s.fates[name] = local.Failed
			}
			for _, name := range test.held {
				s.held[name] = true
			}
			got := statuses(s.tell(t.Context(), test.jobs, 2))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJobsBeginInTheOrderOfTheFile(t *testing.T) {
	s := newStory(t)
	s.tell(t.Context(), []planned{{id: "c"}, {id: "a", legs: []string{"a1", "a2"}}, {id: "b", needs: []string{"c"}}}, 1)
	if diff := cmp.Diff([]string{"c", "a1", "a2", "b"}, s.order); diff != "" {
		// c may end before a1 begins; what may not change is the order of those that are ready together.
		if !slices.Equal(s.order, []string{"c", "a1", "b", "a2"}) {
			t.Error(diff)
		}
	}
	if s.most != 1 {
		t.Errorf("%d legs ran at a time, where there is one slot", s.most)
	}
}

func TestMaxParallelBoundsTheLegsOfAJob(t *testing.T) {
	s := newStory(t)
	s.tell(t.Context(), []planned{{id: "a", legs: []string{"1", "2", "3", "4", "5"}, parallel: 2}}, 9)
	if s.most > 2 {
		t.Errorf("%d legs ran at a time", s.most)
	}
}

func TestOutputsOfLegsAndCalls(t *testing.T) {
	t.Run("the last leg that says something counts", func(t *testing.T) {
		s := newStory(t)
		var seen value.Value
		look := func(n *node) func(map[string]definition.Result) bool {
			return func(map[string]definition.Result) bool { seen = n.scope.outcome("a"); return true }
		}
		jobs := []planned{{id: "a", legs: []string{"a1"}}, {id: "b", needs: []string{"a"}}}
		root := s.scope(jobs, nil)
		p := s.planned[root.nodes[1].job]
		p.condition = look(root.nodes[1])
		s.planned[root.nodes[1].job] = p
		schedule := &schedule{slots: 1, decide: s.decide, expand: s.expand, run: s.run, report: func(local.Result) {}}
		schedule.all(t.Context(), root)
		if got := seen.Fields()["outputs"].Fields()["by"].Text(); got != "a1" {
			t.Errorf("needs.a.outputs.by is %q", got)
		}
		if got := seen.Fields()["result"].Text(); got != "success" {
			t.Errorf("needs.a.result is %q", got)
		}
	})
	t.Run("a called workflow gives what its outputs say", func(t *testing.T) {
		s := newStory(t)
		root := s.scope([]planned{{id: "a", calls: []planned{{id: "x"}}}}, nil)
		schedule := &schedule{slots: 1, decide: s.decide, expand: s.expand, run: s.run, report: func(local.Result) {}, called: func(l *leg) (map[string]value.Value, *event.Error) {
			return map[string]value.Value{"from": l.call.nodes[0].outputs["by"]}, nil
		}}
		schedule.all(t.Context(), root)
		if got := root.outcome("a").Fields()["outputs"].Fields()["from"].Text(); got != "a / x" {
			t.Errorf("needs.a.outputs.from is %q", got)
		}
	})
}

func TestAnInterruptCancelsWhatRunsAndWhatWaits(t *testing.T) {
	s := newStory(t)
	s.held["a"] = true
	ctx, stop := context.WithCancelCause(t.Context())
	schedule := &schedule{slots: 1, decide: s.decide, expand: s.expand, report: func(local.Result) {}, run: func(ctx context.Context, l *leg) local.Result {
		stop(errors.New("interrupt"))
		return s.run(ctx, l)
	}}
	results := schedule.all(ctx, s.scope([]planned{
		{id: "a"}, {id: "b"}, {id: "c", needs: []string{"a"}, condition: func(map[string]definition.Result) bool { return true }},
	}, nil))
	want := map[string]local.Status{"a": local.Cancelled, "b": local.Cancelled, "c": local.Cancelled}
	if diff := cmp.Diff(want, statuses(results)); diff != "" {
		t.Error(diff)
	}
}
