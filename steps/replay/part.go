package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

// part says which steps of a run are run again. A step that others are in is entered when one of them is.
type part struct {
	from, until         place // nil is all
	fromText, untilText string
	incomplete          bool
	last                int // the position of the run's last step, behind which are what components clean up; 0 when not known
	ids                 map[string]*trace.Step
	latest              map[string]*trace.Step      // by the engine's ID: how a step ended last
	stand               map[string]*engine.Recorded // by the engine's ID: what is before from
}

// place is where a step stands: its positions from the root, each with the round of the list that it is in.
type place []turn

type turn struct{ position, round int }

// placeOf reads the ID of a step in a trace: "2.1#2".
func placeOf(id string) place {
	if id == "" {
		return place{}
	}
	var p place
	for element := range strings.SplitSeq(id, ".") {
		position, round, again := strings.Cut(element, "#")
		t := turn{round: 1}
		t.position, _ = strconv.Atoi(position)
		if again {
			t.round, _ = strconv.Atoi(round)
		}
		p = append(p, t)
	}
	return p
}

// compare tells where p stands, seen from q: -1 before, 1 behind, and 0 when one of them is, or is in, the other.
func (p place) compare(q place, rounds bool) int {
	for i := range min(len(p), len(q)) {
		a, b := p[i], q[i]
		switch {
		case rounds && a.round != b.round:
			return sign(a.round - b.round)
		case a.position != b.position:
			return sign(a.position - b.position)
		}
	}
	return 0
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// newPart finds the steps that from and until name.
func newPart(t *trace.Trace, from, until string) (*part, error) {
	p := &part{fromText: from, untilText: until, incomplete: t.Incomplete, ids: map[string]*trace.Step{}, latest: map[string]*trace.Step{}}
	t.Walk(func(s *trace.Step, _ int) { p.ids[s.ID], p.latest[trace.WithoutRounds(s.ID)] = s, s })
	if t.Run.Component != nil {
		p.last = len(t.Run.Component.Definition.Steps)
	}
	var err error
	if p.from, err = p.find(t, "--from", from); err != nil {
		return nil, err
	}
	if p.until, err = p.find(t, "--until", until); err != nil {
		return nil, err
	}
	if p.from != nil && p.until != nil && p.until.compare(p.from, false) < 0 {
		return nil, event.NewError(event.CodeStepNotFound, "there is nothing to run: the step %s comes before the step %s", until, from)
	}
	return p, nil
}

// hook reports whether a step is what a component does before or after all steps, or holds that: such a step goes with the one that
// it belongs to.
func (p *part) hook(at place) bool {
	return len(at) > 0 && p.last > 0 && (at[0].position == 0 || at[0].position > p.last)
}

// find returns the place of the step with an ID or a path of names; nil for "".
func (p *part) find(t *trace.Trace, flag, name string) (place, error) {
	if name == "" {
		return nil, nil
	}
	if s := p.latest[name]; s != nil && s.ID != "" {
		return p.mayName(flag, name, placeOf(name))
	}
	var ids, names []string
	var walk func(prefix string, steps []*trace.Step)
	walk = func(prefix string, steps []*trace.Step) {
		for _, s := range steps {
			path := prefix + s.Name
			if id := trace.WithoutRounds(s.ID); path == name && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			names = append(names, path)
			walk(path+"/", s.Steps)
		}
	}
	walk("", t.Steps)
	if len(ids) > 0 {
		return p.mayName(flag, name, placeOf(ids[0]))
	}
	e := event.NewError(event.CodeStepNotFound, "%s: the recorded run has no step %q", flag, name)
	if near := diag.Suggest(name, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	} else {
		e.Hint = "name it by its ID (2.1) or by the names on the way to it (build/compile); step-runner trace show lists them"
	}
	return nil, e
}

func (p *part) mayName(flag, name string, at place) (place, error) {
	if !p.hook(at) {
		return at, nil
	}
	e := event.NewError(event.CodeStepNotFound, "%s: the step %q is what a component does before or after all steps (pre, post)", flag, name)
	e.Hint = "name the step that calls the component: the other goes with it"
	return nil, e
}

// partial reports whether not all steps are run.
func (p *part) partial() bool { return p.from != nil || p.until != nil || p.incomplete }

// before and behind report whether a step stands outside of the part. Of the rounds of a list that ran again the first is the
// one that until is in.
func (p *part) before(at place) bool { return p.from != nil && at.compare(p.from, false) < 0 }
func (p *part) behind(at place) bool { return p.until != nil && at.compare(p.until, true) > 0 }

// around reports whether a step is one that until is in: it ends early.
func (p *part) around(at place) bool {
	return p.until != nil && len(at) < len(p.until) && at.compare(p.until, false) == 0
}

// runs reports whether a step, or one in it, is in the part.
func (p *part) runs(id string) bool {
	at := placeOf(id)
	return !p.before(at) && !p.behind(at) && !(p.incomplete && p.latest[id] == nil)
}

// recorded is engine.Options.Recorded.
func (p *part) recorded(id string, _ *plan.Step) *engine.Recorded {
	at := placeOf(id)
	switch {
	case p.before(at):
		if known := p.stand[id]; known != nil {
			return known
		}
		return &engine.Recorded{Reason: "not run: before --from " + p.fromText + ", and not in the recorded run", Status: event.Skipped}
	case p.behind(at):
		return &engine.Recorded{Reason: "not run: after --until " + p.untilText, LeftOut: true}
	case p.incomplete && p.latest[id] == nil:
		return &engine.Recorded{Reason: "not run: the trace of the recorded run ends before it", LeftOut: true}
	}
	return nil
}

// standIns makes what stands for the steps before from.
func (p *part) standIns(t *trace.Trace, g *given) {
	if p.from == nil {
		return
	}
	p.stand = map[string]*engine.Recorded{}
	var walk func(steps []*trace.Step)
	walk = func(steps []*trace.Step) {
		for _, s := range steps {
			id := trace.WithoutRounds(s.ID)
			switch at := placeOf(id); {
			case !p.before(at), p.hook(at) && len(at) == 1:
				walk(s.Steps)
			case p.latest[id] == s:
				p.stand[id] = p.standIn(s, g)
				if s.Kind == event.KindParallel { // the list that the group is in knows its members too
					walk(s.Steps)
				}
			}
		}
	}
	walk(t.Steps)
}

func (p *part) standIn(s *trace.Step, g *given) *engine.Recorded {
	rec := &engine.Recorded{
		Reason: "not run: before --from " + p.fromText + "; what it gave is taken from the recorded run, where it ended with " + string(s.Status),
		Status: s.Status, Allowed: s.Allowed, ExitCode: s.ExitCode, Error: s.Error,
		Outputs: map[string]value.Value{}, Exports: map[string]engine.Variable{},
	}
	for _, name := range sortedKeys(s.Outputs) {
		if withheld(s.Outputs[name]) {
			rec.Withheld = append(rec.Withheld, name)
		} else {
			rec.Outputs[name] = s.Outputs[name]
		}
	}
	if s.Kind != event.KindParallel {
		exports(s, rec.Exports, g)
	}
	return rec
}

// exports collects what a step and all that are in it have exported, the latest last.
func exports(s *trace.Step, into map[string]engine.Variable, g *given) {
	for _, inner := range s.Steps {
		exports(inner, into, g)
	}
	for _, name := range sortedKeys(s.Exports) {
		if text, sensitive, ok := g.text("exported variable", name, s.Exports[name]); ok {
			into[name] = engine.Variable{Value: text, Sensitive: sensitive}
		}
	}
}
