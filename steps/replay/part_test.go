package replay

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
)

// recorded is a run in which "build" ran twice, because its second step failed at first.
func recorded() *trace.Trace {
	step := func(id, name string, kind event.StepKind, inner ...*trace.Step) *trace.Step {
		return &trace.Step{ID: id, Name: name, Kind: kind, Status: event.Success, Steps: inner}
	}
	return &trace.Trace{Format: trace.Format, Steps: []*trace.Step{
		step("1", "setup", event.KindScript),
		step("2", "build", event.KindSteps,
			step("2.1", "compile", event.KindScript), step("2.2", "link", event.KindScript),
			step("2.1#2", "compile", event.KindScript), step("2.2#2", "link", event.KindScript)),
		step("3", "checks", event.KindParallel, step("3.1", "lint", event.KindScript), step("3.2", "size", event.KindScript)),
		step("10", "report", event.KindScript),
	}}
}

func TestWhichStepsArePartOfAReplay(t *testing.T) {
	for _, c := range []struct {
		name, from, until string
		ran, left         string // the engine's IDs
		compared          string // the IDs of the trace
	}{
		{"all", "", "", "1 2 2.1 2.2 3 3.1 3.2 10", "", "1 2 2.1 2.2 2.1#2 2.2#2 3 3.1 3.2 10"},
		{"from a step", "3", "", "3 3.1 3.2 10", "1 2 2.1 2.2", "3 3.1 3.2 10"},
		{"from a step in a step, by its names", "build/link", "", "2 2.2 3 10", "1 2.1", "2 2.2 2.2#2 3 3.1 3.2 10"},
		{"until a step", "", "setup", "1", "2 2.1 2.2 3 3.1 10", "1"},
		{"until a step in a list that ran again, the first time", "", "2.1", "1 2 2.1", "2.2 3 10", "1 2 2.1"},
		{"one step", "checks/size", "checks/size", "3 3.2", "1 2 3.1 10", "3 3.2"},
		{"positions are numbers", "10", "", "10", "1 2 3 3.2", "10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := recorded()
			p, err := newPart(run, c.from, c.until)
			if err != nil {
				t.Fatal(err)
			}
			p.standIns(run, &given{opts: &Options{}, used: map[string]bool{}})
			for id := range strings.FieldsSeq(c.ran) {
				if rec := p.recorded(id, nil); rec != nil {
					t.Errorf("%s is not run: %s", id, rec.Reason)
				}
			}
			for id := range strings.FieldsSeq(c.left) {
				if p.recorded(id, nil) == nil {
					t.Errorf("%s is run", id)
				}
			}
			again := &Replay{part: p}
			var ids []string
			again.compared(run).Walk(func(s *trace.Step, _ int) { ids = append(ids, s.ID) })
			if got := strings.Join(ids, " "); got != c.compared {
				t.Errorf("compared are %s, want %s", got, c.compared)
			}
		})
	}
}

// hooked is a run of three steps, the second and third of which prepared something and cleaned it up.
func hooked() *trace.Trace {
	step := func(id, name string, inner ...*trace.Step) *trace.Step {
		return &trace.Step{ID: id, Name: name, Kind: event.KindExec, Status: event.Success, Steps: inner, Exports: map[string]string{"BY": name}}
	}
	return &trace.Trace{
		Format: trace.Format,
		Run:    trace.Run{Component: &plan.Component{Definition: plan.Definition{Steps: make([]plan.Step, 3)}}},
		Steps: []*trace.Step{
			step("0", "pre", step("0.1", "pre_b"), step("0.2", "pre_c")),
			step("1", "a"), step("2", "b"), step("3", "c"),
			step("4", "post_c"), step("5", "post_b"),
		},
	}
}

func TestHooksGoWithTheirSteps(t *testing.T) {
	run := hooked()
	p, err := newPart(run, "c", "")
	if err != nil {
		t.Fatal(err)
	}
	p.standIns(run, &given{opts: &Options{}, used: map[string]bool{}})
	if rec := p.recorded("0.1", nil); rec == nil || rec.Exports["BY"].Value != "pre_b" {
		t.Errorf("%+v stands for what b prepared", rec)
	}
	if p.recorded("2", nil) == nil || p.recorded("3", nil) != nil || p.recorded("4", nil) != nil {
		t.Error("other steps are run")
	}
	var ids []string
	(&Replay{part: p}).compared(run).Walk(func(s *trace.Step, _ int) { ids = append(ids, s.ID) })
	if got := strings.Join(ids, " "); got != "3" {
		t.Errorf("compared are %s", got)
	}
	for _, name := range []string{"0.1", "pre/pre_b", "post_b", "4", "0"} {
		if _, err := newPart(run, name, ""); err == nil || !strings.Contains(err.Error(), "before or after all steps") {
			t.Errorf("--from %s: %v", name, err)
		}
	}
	if p, err = newPart(run, "", ""); err != nil {
		t.Fatal(err)
	}
	ids = nil
	(&Replay{part: p}).compared(run).Walk(func(s *trace.Step, _ int) { ids = append(ids, s.ID) })
	if len(ids) != 8 {
		t.Errorf("compared are only %q", ids)
	}
}

func TestStepsThatAreNotThere(t *testing.T) {
	for _, c := range []struct{ from, until, want string }{
		{"bild", "", `did you mean "build"?`},
		{"", "2.7", "by its ID"},
		{"2.1#2", "", "by its ID"},
		{"report", "setup", "there is nothing to run"},
	} {
		_, err := newPart(recorded(), c.from, c.until)
		e, ok := err.(*event.Error)
		if !ok || e.Kind != event.ErrorNotFound || !strings.Contains(e.Message+" "+e.Hint, c.want) {
			t.Errorf("%q and %q give %+v", c.from, c.until, err)
		}
	}
}

func TestARunThatWasKilled(t *testing.T) {
	run := recorded()
	run.Incomplete = true
	run.Steps = run.Steps[:2]
	run.Steps[1].Status, run.Steps[1].Steps = event.Running, run.Steps[1].Steps[:1]
	p, err := newPart(run, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if p.recorded("2.1", nil) != nil || p.recorded("2.2", nil) == nil || p.recorded("3", nil) == nil {
		t.Error("what is run is not what the trace has")
	}
	again := recorded()
	code := 0
	again.Steps[1].ExitCode = &code
	r := &Replay{recorded: run, part: p}
	d, err := r.Compare(again, CompareOptions{})
	if err != nil || !d.Same || d.Compared != 3 {
		t.Errorf("the difference is %+v, %v", d, err)
	}
}
