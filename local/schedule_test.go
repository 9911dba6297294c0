package local_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
)

// job is a job that waits for others by name and has one unit.
type job struct {
	name  string
	needs []*job
	unit  *local.Unit
	ended bool
}

func (j *job) Name() string { return j.name }

func (j *job) Decide() local.Decision {
	for _, n := range j.needs {
		if !n.ended {
			return local.Decision{Wait: true}
		}
	}
	return local.Decision{}
}

func (j *job) Units() (local.Units, *event.Error) {
	j.unit.Name = j.name
	return local.Units{List: []*local.Unit{j.unit}}, nil
}

func (j *job) Concluded([]local.Result) { j.ended = true }

func succeed(context.Context, int) local.Result { return local.Result{Status: local.Success} }

func TestUnitsThatRunTogetherHaveSlotsOfTheirOwn(t *testing.T) {
	slots := make(chan int, 2)
	both := make(chan struct{})
	meet := func(ctx context.Context, slot int) local.Result {
		if slots <- slot; len(slots) == 2 {
			close(both)
		}
		<-both
		return local.Result{Status: local.Success}
	}
	s := &local.Schedule{Slots: 2, Report: func(local.Result) {}}
	s.Run(t.Context(), &local.Pipeline{Jobs: []local.Job{
		&job{name: "a", unit: &local.Unit{Run: meet}}, &job{name: "b", unit: &local.Unit{Run: meet}},
	}})
	if a, b := <-slots, <-slots; a+b != 1 {
		t.Errorf("the slots are %d and %d", a, b)
	}
}

func TestAUnitThatWaitsForAdmissionTakesNoSlot(t *testing.T) {
	ran := make(chan struct{})
	released := 0
	first := &job{name: "first", unit: &local.Unit{
		Admit: func(context.Context) local.Admission {
			<-ran // another unit runs in the only slot meanwhile
			return local.Admission{Release: func() { released++ }}
		},
		Run: succeed,
	}}
	second := &job{name: "second", unit: &local.Unit{Run: func(context.Context, int) local.Result {
		close(ran)
		return local.Result{Status: local.Success}
	}}}
	var order []string
	s := &local.Schedule{Slots: 1, Report: func(r local.Result) { order = append(order, r.Name) }}
	s.Run(t.Context(), &local.Pipeline{Jobs: []local.Job{first, second}})
	if diff := cmp.Diff([]string{"second", "first"}, order); diff != "" {
		t.Error(diff)
	}
	if released != 1 {
		t.Errorf("what it was admitted with is released %d times", released)
	}
}

func TestAPipelineBesideAUnitRunsToItsEnd(t *testing.T) {
	after := make(chan struct{})
	child := &local.Pipeline{Jobs: []local.Job{&job{name: "a / x", unit: &local.Unit{Run: func(ctx context.Context, _ int) local.Result {
		<-after
		if ctx.Err() != nil {
			return local.Result{Status: local.Cancelled}
		}
		return local.Result{Status: local.Failed}
	}}}}}
	a := &job{name: "a", unit: &local.Unit{Call: &local.Call{Pipeline: child, Beside: &local.Result{Status: local.Success}}}}
	b := &job{name: "b", needs: []*job{a}, unit: &local.Unit{Run: func(context.Context, int) local.Result {
		close(after)
		return local.Result{Status: local.Success}
	}}}
	s := &local.Schedule{Slots: 2, Report: func(local.Result) {}}
	got := map[string]local.Status{}
	for _, r := range local.Flatten(s.Run(t.Context(), &local.Pipeline{Jobs: []local.Job{a, b}})) {
		got[r.Name] = r.Status
	}
	if diff := cmp.Diff(map[string]local.Status{"a": local.Success, "a / x": local.Failed, "b": local.Success}, got); diff != "" {
		t.Error(diff)
	}
}

func TestStoppingACalledPipelineStopsNothingElse(t *testing.T) {
	child := &local.Pipeline{}
	child.Jobs = []local.Job{
		&job{name: "a / x", unit: &local.Unit{Run: func(ctx context.Context, _ int) local.Result {
			child.Stop(errors.New("it failed"))
			<-ctx.Done()
			return local.Result{Status: local.Cancelled}
		}}},
	}
	ended := func(all []local.Result) local.Result { return local.Result{Status: all[0].Status} }
	a := &job{name: "a", unit: &local.Unit{Call: &local.Call{Pipeline: child, Ended: ended}}}
	b := &job{name: "b", needs: []*job{a}, unit: &local.Unit{Run: succeed}}
	s := &local.Schedule{Slots: 1, Report: func(local.Result) {}}
	results := s.Run(t.Context(), &local.Pipeline{Jobs: []local.Job{a, b}})
	if results[0].Status != local.Cancelled || results[1].Status != local.Success {
		t.Errorf("a is %s, b is %s", results[0].Status, results[1].Status)
	}
}
