package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
)

// begins emits the start of a run that goes on with another one, unless that is "".
func (s *script) begins(id, before, position string) {
	e := event.RunStarted{ID: id, WorkDir: "/work", Component: inline("tool"), Env: map[string]string{"HOME": "/tmp/step-runner-" + id + "/home"}}
	if before != "" {
		e.Continues = &event.Continuation{Run: before, Before: position}
	}
	s.at(0, "", e)
}

func (s *script) ends(counts event.Counts) {
	s.at(0, "", event.RunFinished{Status: event.Success, Counts: counts, Duration: 7 * time.Millisecond})
}

// part records a part of a run.
func part(t *testing.T, play func(*script)) *Trace {
	t.Helper()
	return read(t, record(t, play))
}

func TestTheJoinedPartsOfARunAreTheTraceOfOneThatStayed(t *testing.T) {
	t.Parallel()
	whole := part(t, func(s *script) {
		s.begins("111111", "", "")
		s.run("1", "one", "in /tmp/step-runner-111111/home\n", 0, 1)
		s.run("2", "two", "in /tmp/step-runner-111111/home\n", 0, 1)
		s.run("3", "three", "", 0, 1)
		s.ends(event.Counts{Success: 3})
	})
	first := part(t, func(s *script) {
		s.begins("222222", "", "")
		s.at(0, "", event.Paused{Before: "1"})
		s.at(5, "", event.Resumed{Before: "1"})
		s.run("1", "one", "in /tmp/step-runner-222222/home\n", 0, 1)
		s.at(0, "", event.Paused{Before: "2"})
	})
	second := part(t, func(s *script) {
		s.begins("333333", "222222", "2")
		s.run("2", "two", "in /tmp/step-runner-333333/home\n", 0, 1)
		s.at(0, "", event.Paused{Before: "3"})
	})
	third := part(t, func(s *script) {
		s.begins("444444", "333333", "3")
		s.run("3", "three", "", 0, 1)
		s.ends(event.Counts{Success: 3})
	})
	joined, err := Join(third, first, second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(export(t, whole, "comparable")), string(export(t, joined, "comparable"))); diff != "" {
		t.Error(diff)
	}
	var ids []string
	for _, p := range joined.Run.Parts {
		ids = append(ids, p.ID)
	}
	if strings.Join(ids, " ") != "222222 333333 444444" || joined.Run.ID != "444444" || joined.Incomplete || joined.Run.Continues != nil {
		t.Errorf("%q, %+v", ids, joined.Run)
	}
	if n := len(joined.Run.Pauses); n != 3 || joined.Run.Pauses[n-1].Before != "3" || joined.Run.Pauses[n-1].Resumed.IsZero() {
		t.Errorf("%+v", joined.Run.Pauses)
	}
	if want := first.Run.Duration + second.Run.Duration + third.Run.Duration; joined.Run.Duration != want {
		t.Errorf("it took %s, and its parts %s", joined.Run.Duration, want)
	}
	var log bytes.Buffer
	if err := joined.Log("2", &log); err != nil || log.String() != "in /tmp/step-runner-333333/home\n" {
		t.Errorf("%q, %v", log.String(), err)
	}
	begun, err := Join(first, second)
	if err != nil || !begun.Incomplete || begun.Run.Counts.Success != 2 {
		t.Errorf("%+v, %v", begun, err)
	}
	text := string(export(t, begun, "text"))
	if !strings.Contains(text, "paused before step 3") {
		t.Error(text)
	}
}

func TestJoinRefusesWhatIsNotOneRun(t *testing.T) {
	t.Parallel()
	paused := func(id, of, at, before string) *Trace {
		return part(t, func(s *script) {
			s.begins(id, of, at)
			s.run(at, "x", "", 0, 1)
			s.at(0, "", event.Paused{Before: before})
		})
	}
	ended := func(id, of, at string) *Trace {
		return part(t, func(s *script) {
			s.begins(id, of, at)
			s.ends(event.Counts{})
		})
	}
	a := paused("a", "", "1", "2")
	for want, parts := range map[string][]*Trace{
		"the first part is missing":          {ended("b", "a", "2")},
		"both begin with their first step":   {a, ended("b", "", "")},
		"both continue the run a":            {a, ended("b", "a", "2"), ended("c", "a", "2")},
		"continues the run a is missing":     {a, ended("c", "b", "2")},
		"did not end at the boundary before": {a, ended("b", "a", "3")},
		"run b did not end at the boundary":  {a, ended("b", "a", "2"), ended("c", "b", "3")},
	} {
		if _, err := Join(parts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
