package pipeline_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// words name the states in tests; those with a question mark are of jobs that may fail.
var words = map[string]pipeline.State{
	"waiting": pipeline.Waiting, "ok": pipeline.Success, "warned": pipeline.Warned, "failed": pipeline.Failed, "canceled": pipeline.Canceled, "canceled?": pipeline.Canceled,
	"skipped": pipeline.Skipped, "manual": pipeline.Held, "manual?": pipeline.Held, "absent": pipeline.Absent,
}

// TestDecide has for every combination of states before a job what comes of it, by its `when`: on_success (and manual and delayed,
// which are the same), on_failure and always; first by stages, then with needs.
func TestDecide(t *testing.T) {
	const (
		run, skip, wait, block = pipeline.Run, pipeline.Skip, pipeline.Wait, pipeline.Block
	)
	type decisions [3]pipeline.Decision
	for states, want := range map[string]struct{ stages, needs decisions }{
		"":                 {decisions{run, skip, run}, decisions{run, skip, run}},
		"absent":           {decisions{run, skip, run}, decisions{run, skip, run}},
		"ok":               {decisions{run, skip, run}, decisions{run, skip, run}},
		"ok absent":        {decisions{run, skip, run}, decisions{run, skip, run}},
		"warned":           {decisions{run, skip, run}, decisions{run, skip, run}},
		"ok warned":        {decisions{run, skip, run}, decisions{run, skip, run}},
		"failed":           {decisions{skip, run, run}, decisions{skip, run, run}},
		"ok failed":        {decisions{skip, run, run}, decisions{skip, run, run}},
		"warned failed":    {decisions{skip, run, run}, decisions{skip, run, run}},
		"failed absent":    {decisions{skip, run, run}, decisions{skip, run, run}},
		"waiting":          {decisions{wait, wait, wait}, decisions{wait, wait, wait}},
		"ok waiting":       {decisions{wait, wait, wait}, decisions{wait, wait, wait}},
		"failed waiting":   {decisions{wait, wait, wait}, decisions{wait, wait, wait}},
		"canceled waiting": {decisions{wait, wait, wait}, decisions{wait, wait, wait}},
		"canceled":         {decisions{skip, skip, skip}, decisions{skip, skip, skip}},
		"ok canceled":      {decisions{skip, skip, skip}, decisions{skip, skip, skip}},
		"canceled?":        {decisions{run, skip, run}, decisions{run, skip, run}},
		"failed canceled":  {decisions{skip, run, run}, decisions{skip, run, run}},
		// What never ran does not matter to later stages. A job that needs it does not run either.
		"skipped":          {decisions{run, skip, run}, decisions{skip, skip, run}},
		"ok skipped":       {decisions{run, skip, run}, decisions{skip, skip, run}},
		"skipped waiting":  {decisions{wait, wait, wait}, decisions{skip, skip, run}},
		"failed skipped":   {decisions{skip, run, run}, decisions{skip, skip, run}},
		"canceled skipped": {decisions{skip, skip, skip}, decisions{skip, skip, run}},
		// A manual job that nobody started: an optional one is as if it were skipped, the other one blocks.
		"manual?":         {decisions{run, skip, run}, decisions{skip, skip, run}},
		"ok manual?":      {decisions{run, skip, run}, decisions{skip, skip, run}},
		"skipped manual?": {decisions{run, skip, run}, decisions{skip, skip, run}},
		"failed manual?":  {decisions{skip, run, run}, decisions{skip, skip, run}},
		"manual":          {decisions{block, block, block}, decisions{block, block, block}},
		"ok manual":       {decisions{block, block, block}, decisions{block, block, block}},
		"failed manual":   {decisions{block, block, block}, decisions{block, block, block}},
		"manual waiting":  {decisions{wait, wait, wait}, decisions{wait, wait, wait}},
		"manual skipped":  {decisions{block, block, block}, decisions{skip, skip, run}},
	} {
		for i, whens := range [][]when.When{{when.OnSuccess, when.Manual, when.Delayed}, {when.OnFailure}, {when.Always}} {
			for _, w := range whens {
				for _, dag := range []bool{false, true} {
					expected, mode := want.stages[i], "by stages"
					if dag {
						expected, mode = want.needs[i], "with needs"
					}
					t.Run(string(w)+" "+mode+" after "+states, func(t *testing.T) {
						if got := decide(t, strings.Fields(states), w, dag); got != expected {
							t.Errorf("%v, want %v", got, expected)
						}
					})
				}
			}
		}
	}
}

// decide decides about a job behind others in states.
func decide(t *testing.T, states []string, w when.When, dag bool) pipeline.Decision {
	t.Helper()
	state := map[string]pipeline.State{}
	var jobs []*keyword.Job
	wanted := []keyword.Need{}
	for i, s := range states {
		name := s + string(rune('0'+i))
		state[name] = words[s]
		jobs = append(jobs, job(name, "build", allowed(strings.HasSuffix(s, "?"))))
		wanted = append(wanted, need(name))
	}
	last := job("last", "deploy", at(w))
	if dag {
		last.Needs = wanted
	}
	// What is in the same stage never matters.
	p := build(t, define(append(jobs, last, job("beside", "deploy"))...), onMain())
	d, _ := p.Decide(mustJob(t, p, "last"), func(j *pipeline.Job) pipeline.State {
		s, ok := state[j.Name]
		if !ok {
			t.Errorf("somebody asks for the state of %s", j.Name)
		}
		return s
	})
	return d
}

func TestDecideSaysWhichJobIsTheReason(t *testing.T) {
	p := build(t, define(job("a", "build"), job("b", "build"), job("c", "test"), job("d", "test", needs(need("b")))), onMain())
	for name, test := range map[string]struct {
		job    string
		b      pipeline.State
		want   pipeline.Decision
		reason string
	}{
		"one that failed":         {"c", pipeline.Failed, pipeline.Skip, "b"},
		"one that was skipped":    {"d", pipeline.Skipped, pipeline.Skip, "b"},
		"one that was canceled":   {"c", pipeline.Canceled, pipeline.Skip, "b"},
		"one that has not ended":  {"c", pipeline.Waiting, pipeline.Wait, "b"},
		"one that nobody started": {"c", pipeline.Held, pipeline.Block, "b"},
		"none, when all is well":  {"c", pipeline.Success, pipeline.Run, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, because := p.Decide(mustJob(t, p, test.job), func(j *pipeline.Job) pipeline.State {
				if j.Name == "b" {
					return test.b
				}
				return pipeline.Success
			})
			reason := ""
			if because != nil {
				reason = because.Name
			}
			if got != test.want || reason != test.reason {
				t.Errorf("got %v because of %q", got, reason)
			}
		})
	}
}

func TestAFailureIsAllowed(t *testing.T) {
	codes := func(j *keyword.Job) { j.AllowFailure = keyword.AllowFailure{Set: true, ExitCodes: []int{137, 255}} }
	for name, test := range map[string]struct {
		options []option
		code    int
		want    pipeline.State
	}{
		"not without allow_failure":     {nil, 1, pipeline.Failed},
		"with allow_failure":            {[]option{allowed(true)}, 1, pipeline.Warned},
		"not with allow_failure: false": {[]option{allowed(false)}, 1, pipeline.Failed},
		"with one of the exit codes":    {[]option{codes}, 255, pipeline.Warned},
		"not with another exit code":    {[]option{codes}, 1, pipeline.Failed},
		"for a manual job":              {[]option{at(when.Manual)}, 1, pipeline.Warned},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustJob(t, build(t, define(job("a", "test", test.options...)), onMain()), "a").Failure(test.code); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestNamesOfStatesAndDecisions(t *testing.T) {
	for want, got := range map[string]string{
		"waiting": pipeline.Waiting.String(), "failed, which is allowed": pipeline.Warned.String(), "absent": pipeline.Absent.String(), "unknown": pipeline.State(99).String(),
		"wait": pipeline.Wait.String(), "block": pipeline.Block.String(), "none": strings.Replace(pipeline.Decision(99).String(), "unknown", "none", 1),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
