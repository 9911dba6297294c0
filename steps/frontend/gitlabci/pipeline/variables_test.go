package pipeline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// layered is a job for which every level defines its own name and all names of lower levels.
func layered(options ...option) (*keyword.Definition, pipeline.Facts) {
	rule := keyword.Rule{}
	rule.Rule.Variables = vars("RULES", "rules", "JOB", "rules")
	workflow := keyword.Rule{}
	workflow.Rule.Variables = vars("WORKFLOW", "workflow", "GLOBAL", "workflow")
	d := define(job("a", "test", append([]option{rules(rule), has("JOB", "job", "MATRIX", "job", "WORKFLOW", "job"), inMatrix("MATRIX=matrix")}, options...)...))
	d.Variables = defined("GLOBAL", "global", "ONLY_GLOBAL", "global", "PREDEFINED", "global", "CI_JOB_NAME", "global")
	d.Workflow.Rules = []keyword.Rule{workflow}
	facts := pipeline.Facts{
		Variables: []variable.Layer{
			{Level: variable.Pipeline, Variables: vars("PROJECT", "pipeline", "PIPELINE", "pipeline")},
			{Level: variable.Project, Variables: vars("RULES", "project", "PROJECT", "project")},
			{Level: variable.Predefined, Variables: vars("PREDEFINED", "predefined", "CI_JOB_ID", "outside")},
		},
		JobVariables: func(j *pipeline.Job) []variable.Variable { return vars("CI_JOB_NAME", j.Name, "CI_JOB_ID", "1") },
	}
	facts.Ref = onMain().Ref
	return d, facts
}

func TestVariablesAreMergedByTheirLevels(t *testing.T) {
	inherit := func(names ...string) option {
		return func(j *keyword.Job) { j.Inherits = config.Inherit{Names: names} }
	}
	for name, test := range map[string]struct {
		options []option
		want    map[string]string
	}{
		"all": {nil, map[string]string{
			"PREDEFINED": "global", "CI_JOB_ID": "1", "CI_JOB_NAME": "global", "GLOBAL": "workflow", "ONLY_GLOBAL": "global", "WORKFLOW": "job", "MATRIX": "matrix",
			"JOB": "rules", "RULES": "project", "PROJECT": "pipeline", "PIPELINE": "pipeline", "CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "1",
		}},
		"none of the global ones are inherited": {[]option{inherit()}, map[string]string{
			"PREDEFINED": "predefined", "CI_JOB_ID": "1", "CI_JOB_NAME": "a: [matrix]", "WORKFLOW": "job", "MATRIX": "matrix",
			"JOB": "rules", "RULES": "project", "PROJECT": "pipeline", "PIPELINE": "pipeline", "CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "1",
		}},
		"some of the global ones are inherited": {[]option{inherit("ONLY_GLOBAL", "GLOBAL")}, map[string]string{
			"PREDEFINED": "predefined", "CI_JOB_ID": "1", "CI_JOB_NAME": "a: [matrix]", "WORKFLOW": "job", "MATRIX": "matrix", "ONLY_GLOBAL": "global", "GLOBAL": "workflow",
			"JOB": "rules", "RULES": "project", "PROJECT": "pipeline", "PIPELINE": "pipeline", "CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, facts := layered(test.options...)
			v, err := build(t, d, facts).Jobs[0].Variables()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, x := range v.Effective() {
				got[x.Name] = x.Value
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatRulesSeeIsWhatTheJobGets(t *testing.T) {
	for _, options := range [][]option{nil, {func(j *keyword.Job) { j.Inherits = config.Inherit{} }}} {
		d, facts := layered(options...)
		v, err := build(t, d, facts).Jobs[0].Variables()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range v.Effective() {
			if x.Name == "RULES" || x.Name == "JOB" {
				continue // the rule itself sets them
			}
			d.Jobs[0].Rules[0].If = if_(t, "$"+x.Name+` == "`+x.Value+`"`).If
			if p := build(t, d, facts); len(p.Jobs) != 1 {
				t.Errorf("%s is %q in the job, and rules say: %s", x.Name, x.Value, p.Excluded[0].Reason())
			}
		}
	}
}

func TestVariablesAreExpandedForTheRunner(t *testing.T) {
	d := define(job("a", "test", has("A", "$B/x", "B", "$CI_COMMIT_BRANCH", "C", "$NOPE $$B")))
	v, err := mustJob(t, build(t, d, onMain()), "a").Variables()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "main/x", "B": "main", "C": "$NOPE $$B"} {
		if got, _ := v.Lookup(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestLayersThatComeLater(t *testing.T) {
	d := define(job("a", "test", has("VERSION", "job", "TEXT", "v$VERSION")))
	j := mustJob(t, build(t, d, onMain("FIXED", "project")), "a")
	v, err := j.VariablesWith(variable.Layer{Level: variable.Dotenv, Variables: vars("VERSION", "2", "FIXED", "dotenv")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TEXT": "v2", "FIXED": "project"} {
		if got, _ := v.Lookup(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if v, _ = j.Variables(); v != nil {
		if got, _ := v.Lookup("TEXT"); got != "vjob" {
			t.Errorf("a later layer stays: TEXT is %q", got)
		}
	}
}

func TestVariablesInACircle(t *testing.T) {
	_, err := mustJob(t, build(t, define(job("a", "test", has("A", "$B", "B", "$A"))), onMain()), "a").Variables()
	if list := diag.Of(err); len(list) != 1 || !strings.HasPrefix(list[0].Message, `the job "a": variables refer to each other in a circle: [`) {
		t.Errorf("got %v", err)
	}
}

func TestVariablesOfAJobAreAskedForWhenRulesNeedThem(t *testing.T) {
	asked := 0
	facts := onMain("MODE", "fast")
	facts.JobVariables = func(*pipeline.Job) []variable.Variable { asked++; return nil }
	for name, test := range map[string]struct {
		condition string
		want      int
	}{
		"not for those of higher levels":     {`$MODE == "slow" || $MODE == "fast"`, 0},
		"once for those that are predefined": {`$CI_COMMIT_BRANCH && $CI_PIPELINE_SOURCE && $CI_JOB_NAME == null`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			build(t, define(job("a", "test", rules(if_(t, test.condition))), job("b", "test")), facts)
			if asked != test.want {
				t.Errorf("asked %d times, want %d", asked, test.want)
			}
		})
	}
}
