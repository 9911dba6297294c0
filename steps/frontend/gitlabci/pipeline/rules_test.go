package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

func TestJobsStandInTheOrderOfTheirStages(t *testing.T) {
	p := build(t, define(job("last", ".post"), job("d", "deploy"), job("b2", "build"), job("first", ".pre"), job("b1", "build")), onMain())
	if diff := cmp.Diff([]string{"first", "b2", "b1", "d", "last"}, names(p.Jobs)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{".pre", "build", "deploy", ".post"}, p.Stages); diff != "" {
		t.Errorf("stages without jobs are left out: %s", diff)
	}
	if j := mustJob(t, p, "d"); j.StageIndex != 2 || j.Group != "d" || j.NodeIndex != 0 || j.NodeTotal != 1 {
		t.Errorf("the job is %+v", j)
	}
	if p.Reason() != "" || p.Name != "" || len(p.Excluded) != 0 {
		t.Errorf("the pipeline is %+v", p)
	}
}

func TestAnUnknownStageIsAProblem(t *testing.T) {
	got := problems(t, define(job("a", "biuld"), job("b", "test", needs(need("a")))), onMain())
	want := []string{`the job "a" is in the stage "biuld", which is not one of ` + "`stages` | did you mean \"build\"?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWorkflow(t *testing.T) {
	named := func(name string, rules ...keyword.Rule) *keyword.Definition {
		d := define(job("a", "test"))
		d.Variables = defined("KIND", "global", "WHAT", "$KIND/$CI_COMMIT_BRANCH")
		d.Workflow = keyword.Workflow{Name: name, Rules: rules}
		return d
	}
	none := []keyword.Rule{}
	never := if_(t, `$CI_COMMIT_BRANCH == "main"`)
	never.When = when.Never
	typed := if_(t, `$CI_COMMIT_BRANCH`)
	typed.Rule.Variables = vars("KIND", "workflow")
	for name, test := range map[string]struct {
		d                *keyword.Definition
		wantName, reason string
		kind             string
		jobs, rule       int
	}{
		"without rules there is a pipeline":               {named(""), "", "", "global", 1, when.NoRule},
		"a rule that holds lets it be":                    {named("", if_(t, `$NOPE`), if_(t, `$CI_COMMIT_BRANCH`)), "", "", "global", 1, 1},
		"a rule with never keeps it":                      {named("x", never), "", "`workflow: rules` keep it from running: rule 1: $CI_COMMIT_BRANCH is \"main\"", "", 0, 0},
		"no rule that holds keeps it":                     {named("x", if_(t, `$NOPE`)), "", "`workflow: rules` keep it from running: no rule applies: rule 1: $NOPE is not set", "", 0, when.NoRule},
		"rules without any entry keep it":                 {named("x", none...), "", "`workflow: rules` keep it from running: no rule applies: there are none", "", 0, when.NoRule},
		"its name is expanded, with the rule's variables": {named(" run of $WHAT $NOPE", typed), "run of workflow/main", "", "workflow", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := build(t, test.d, onMain())
			if p.Name != test.wantName || p.Reason() != test.reason || len(p.Jobs) != test.jobs || p.Verdict.Rule != test.rule {
				t.Errorf("got name %q, reason %q, %d jobs, rule %d", p.Name, p.Reason(), len(p.Jobs), p.Verdict.Rule)
			}
			if test.jobs == 0 {
				return
			}
			v, err := p.Jobs[0].Variables()
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := v.Lookup("KIND"); got != test.kind {
				t.Errorf("KIND is %q, want %q", got, test.kind)
			}
		})
	}
}

func TestRulesDecideWhetherAJobIsAdded(t *testing.T) {
	never := if_(t, `$CI_COMMIT_BRANCH == "main"`)
	never.When = when.Never
	mergeRequests := func(j *keyword.Job) { j.Legacy.Only = &when.Policy{Refs: refs(t, "merge_requests")} }
	inMergeRequest := onMain()
	inMergeRequest.Ref.Kind, inMergeRequest.Ref.Source = when.MergeRequest, "merge_request_event"
	for name, test := range map[string]struct {
		option   option
		facts    pipeline.Facts
		workflow bool
		added    bool
		reason   string
	}{
		"a rule that holds adds it":                       {option: rules(if_(t, `$CI_COMMIT_BRANCH == "main"`)), added: true, reason: `rule 1: $CI_COMMIT_BRANCH is "main"`},
		"no rule that holds leaves it out":                {option: rules(if_(t, `$CI_COMMIT_BRANCH == "dev"`)), reason: `no rule applies: rule 1: $CI_COMMIT_BRANCH is "main", not "dev"`},
		"rules without any entry leave it out":            {option: rules(), reason: "no rule applies: there are none"},
		"when: never leaves it out":                       {option: rules(never), reason: `rule 1: $CI_COMMIT_BRANCH is "main"`},
		"the first rule counts":                           {option: rules(never, if_(t, "$CI_COMMIT_BRANCH")), reason: `rule 1: $CI_COMMIT_BRANCH is "main"`},
		"without rules it is in pipelines of branches":    {option: at(when.OnSuccess), added: true, reason: "by default: branches matches (branch main, started by push)"},
		"without rules it is in none of merge requests":   {option: at(when.OnSuccess), facts: inMergeRequest, reason: "by default: not branches or tags (merge request main, started by merge_request_event)"},
		"with workflow: rules it is in those as well":     {option: at(when.OnSuccess), facts: inMergeRequest, workflow: true, added: true, reason: "there are no rules"},
		"only: merge_requests leaves it out for branches": {option: mergeRequests, reason: "only: not merge_requests (branch main, started by push)"},
		"only: merge_requests adds it for merge requests": {option: mergeRequests, facts: inMergeRequest, added: true, reason: "only: merge_requests matches (merge request main, started by merge_request_event)"},
		"except leaves it out":                            {option: func(j *keyword.Job) { j.Legacy.Except = &when.Policy{Refs: refs(t, "main")} }, reason: "except: main matches (branch main, started by push)"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.facts.Variables == nil {
				test.facts = onMain()
			}
			d := define(job("a", "test", test.option), job("other", "test", rules(keyword.Rule{})))
			if test.workflow {
				d.Workflow.Rules = []keyword.Rule{{}}
			}
			p := build(t, d, test.facts)
			j := p.Job("a")
			if (j != nil) != test.added {
				t.Fatalf("the job is added: %v", j != nil)
			}
			if j == nil {
				if diff := cmp.Diff([]string{"a"}, names(p.Excluded)); diff != "" {
					t.Fatal(diff)
				}
				if j = p.Excluded[0]; j.StageIndex != -1 || j.When != when.Never {
					t.Errorf("the job that is left out is %+v", j)
				}
			}
			if got := j.Reason(); got != test.reason {
				t.Errorf("the reason is %q, want %q", got, test.reason)
			}
		})
	}
}

func refs(t *testing.T, texts ...string) (out []when.Ref) {
	t.Helper()
	for _, text := range texts {
		r, err := when.ParseRef(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestRulesOverrideWhatTheJobSays(t *testing.T) {
	yes, no := true, false
	rule := func(r when.Rule) option { return rules(keyword.Rule{Rule: r}) }
	codes := func(j *keyword.Job) { j.AllowFailure = keyword.AllowFailure{Set: true, ExitCodes: []int{3}} }
	type result struct {
		When          when.When
		StartIn       time.Duration
		AllowFailure  keyword.AllowFailure
		Interruptible bool
	}
	for name, test := range map[string]struct {
		options []option
		want    result
	}{
		"a job runs on success":                                  {nil, result{When: when.OnSuccess}},
		"the job's own when stays where the rule is silent":      {[]option{at(when.OnFailure), rule(when.Rule{})}, result{When: when.OnFailure}},
		"the rule's when counts":                                 {[]option{at(when.OnFailure), rule(when.Rule{When: when.Always})}, result{When: when.Always}},
		"a manual job may fail":                                  {[]option{at(when.Manual)}, result{When: when.Manual, AllowFailure: keyword.AllowFailure{Always: true}}},
		"a manual job may fail with rules too":                   {[]option{at(when.Manual), rule(when.Rule{})}, result{When: when.Manual, AllowFailure: keyword.AllowFailure{Always: true}}},
		"a manual job that says so may not":                      {[]option{at(when.Manual), allowed(false)}, result{When: when.Manual, AllowFailure: keyword.AllowFailure{Set: true}}},
		"a job that a rule makes manual may not":                 {[]option{rule(when.Rule{When: when.Manual})}, result{When: when.Manual}},
		"a job that a rule makes manual may if the rule says so": {[]option{rule(when.Rule{When: when.Manual, AllowFailure: &yes})}, result{When: when.Manual, AllowFailure: keyword.AllowFailure{Set: true, Always: true}}},
		"a job that a rule makes manual may if the job says so":  {[]option{allowed(true), rule(when.Rule{When: when.Manual})}, result{When: when.Manual, AllowFailure: keyword.AllowFailure{Set: true, Always: true}}},
		"a rule forbids failure":                                 {[]option{allowed(true), rule(when.Rule{AllowFailure: &no})}, result{When: when.OnSuccess, AllowFailure: keyword.AllowFailure{Set: true}}},
		"exit codes stay":                                        {[]option{codes, rule(when.Rule{})}, result{When: when.OnSuccess, AllowFailure: keyword.AllowFailure{Set: true, ExitCodes: []int{3}}}},
		"a rule's allow_failure drops exit codes":                {[]option{codes, rule(when.Rule{AllowFailure: &no})}, result{When: when.OnSuccess, AllowFailure: keyword.AllowFailure{Set: true}}},
		"a job is delayed":                                       {[]option{at(when.Delayed), func(j *keyword.Job) { j.StartIn = time.Hour }}, result{When: when.Delayed, StartIn: time.Hour}},
		"a rule delays":                                          {[]option{rule(when.Rule{When: when.Delayed, StartIn: "30m"})}, result{When: when.Delayed, StartIn: 30 * time.Minute}},
		"a rule makes it interruptible":                          {[]option{rule(when.Rule{Interruptible: &yes})}, result{When: when.OnSuccess, Interruptible: true}},
		"interruptible stays where the rule is silent":           {[]option{func(j *keyword.Job) { j.Interruptible = true }, rule(when.Rule{})}, result{When: when.OnSuccess, Interruptible: true}},
		"a rule makes it not interruptible":                      {[]option{func(j *keyword.Job) { j.Interruptible = true }, rule(when.Rule{Interruptible: &no})}, result{When: when.OnSuccess}},
	} {
		t.Run(name, func(t *testing.T) {
			j := mustJob(t, build(t, define(job("a", "test", test.options...)), onMain()), "a")
			if diff := cmp.Diff(test.want, result{j.When, j.StartIn, j.AllowFailure, j.Interruptible}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRulesSeeVariables(t *testing.T) {
	facts := onMain("PROJECT", "project", "OVER", "project", "TOKEN", "hunter2")
	facts.Variables[1].Variables[2].Masked = true
	facts.JobVariables = func(j *pipeline.Job) []variable.Variable { return vars("CI_JOB_NAME", j.Name, "OWN", "predefined") }
	d := func(options ...option) *keyword.Definition {
		d := define(job("a", "test", append([]option{has("OVER", "job", "OWN", "job $PROJECT")}, options...)...), job("keep", "test"))
		d.Variables = defined("GLOBAL", "global", "OVER", "global", "BRANCH", "$CI_COMMIT_BRANCH")
		workflow := keyword.Rule{}
		workflow.Rule.Variables = vars("FLOW", "workflow", "GLOBAL2", "workflow")
		d.Workflow.Rules = []keyword.Rule{workflow}
		return d
	}
	inherits := func(names ...string) option {
		return func(j *keyword.Job) { j.Inherits = config.Inherit{Names: names} }
	}
	for name, test := range map[string]struct {
		condition string
		option    option
		want      bool
	}{
		"predefined ones":          {`$CI_COMMIT_BRANCH == "main"`, nil, true},
		"global ones":              {`$GLOBAL == "global"`, nil, true},
		"those of workflow: rules": {`$FLOW == "workflow"`, nil, true},
		"those of the project, which override the job's": {`$OVER == "project"`, nil, true},
		"the job's own, unexpanded":                      {`$OWN == "job $PROJECT"`, nil, true},
		"values that are not expanded":                   {`$BRANCH == "main"`, nil, false},
		"those that are predefined for the job":          {`$CI_JOB_NAME == "a"`, nil, true},
		"the number of copies":                           {`$CI_NODE_TOTAL == "1"`, nil, true},
		"no number of a copy where there are none":       {`$CI_NODE_INDEX`, nil, false},
		"not those that it does not inherit":             {`$GLOBAL || $FLOW`, inherits(), false},
		"those that it does inherit":                     {`$GLOBAL && $FLOW == null`, inherits("GLOBAL"), true},
		"those of the rules are not set yet":             {`$RULE`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := if_(t, test.condition)
			r.Rule.Variables = vars("RULE", "1")
			options := []option{rules(r)}
			if test.option != nil {
				options = append(options, test.option)
			}
			p := build(t, d(options...), facts)
			if got := p.Job("a") != nil; got != test.want {
				t.Errorf("%s is %v", test.condition, got)
			}
		})
	}
	t.Run("masked values are not shown in reasons", func(t *testing.T) {
		p := build(t, d(rules(if_(t, `$TOKEN == "x"`))), facts)
		if reason := p.Excluded[0].Reason(); strings.Contains(reason, "hunter2") || !strings.Contains(reason, "$TOKEN") {
			t.Errorf("the reason is %q", reason)
		}
	})
}

func TestFilesInRules(t *testing.T) {
	var asked []string
	facts := onMain("DIR", "src/$NAME", "NAME", "app")
	facts.Changed = func(c when.Changes) (when.Answer, error) {
		asked = append(asked, "changed "+strings.Join(c.Paths, " ")+" since "+c.CompareTo)
		if c.CompareTo == "nowhere" {
			return when.Answer{}, errors.New("there is no ref nowhere")
		}
		return when.Answer{Yes: c.Paths[0] == "src/app/*", Why: "src/app/main.go was changed"}, nil
	}
	facts.Exists = func(e when.Exists) (when.Answer, error) {
		asked = append(asked, "exists "+strings.Join(e.Paths, " ")+" in "+e.Project+"@"+e.Ref)
		return when.Answer{Yes: false}, nil
	}
	changes := func(compareTo string, paths ...string) keyword.Rule {
		return keyword.Rule{Rule: when.Rule{Changes: &when.Changes{Paths: paths, CompareTo: compareTo}}}
	}
	exists := keyword.Rule{Rule: when.Rule{Exists: &when.Exists{Paths: []string{"$NOPE/$NAME"}, Project: "group/$NAME", Ref: "$CI_COMMIT_BRANCH"}}}
	d := define(job("a", "test", rules(changes("$CI_COMMIT_BRANCH", "$DIR/*"))), job("b", "test", rules(exists)), job("c", "test", rules(changes("", "docs/*"))))
	p := build(t, d, facts)
	want := []string{"changed src/app/* since main", "exists $NOPE/app in group/app@main", "changed docs/* since "}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	if got := mustJob(t, p, "a").Reason(); got != "rule 1: src/app/main.go was changed" {
		t.Errorf("the reason is %q", got)
	}
	if diff := cmp.Diff([]string{"b", "c"}, names(p.Excluded)); diff != "" {
		t.Error(diff)
	}
	t.Run("without somebody to ask the answer is yes", func(t *testing.T) {
		if p := build(t, d, onMain()); len(p.Jobs) != 3 {
			t.Errorf("there are %q", names(p.Jobs))
		}
	})
	t.Run("an answer that is an error is told with the rule", func(t *testing.T) {
		got := problems(t, define(job("a", "test", rules(if_(t, "$NOPE"), changes("nowhere", "x")))), facts)
		if diff := cmp.Diff([]string{`the job "a": rule 2: changes: there is no ref nowhere`}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("variables in a circle are told", func(t *testing.T) {
		got := problems(t, define(job("a", "test", has("A", "$B", "B", "$A"), rules(changes("", "$A")))), facts)
		if len(got) != 1 || !strings.Contains(got[0], `the job "a": rule 1: changes: variables refer to each other in a circle`) {
			t.Error(got)
		}
	})
}

func TestAPipelineWithoutJobs(t *testing.T) {
	no := rules(if_(t, "$NOPE"))
	for name, test := range map[string]struct {
		d        *keyword.Definition
		reason   string
		excluded []string
	}{
		"rules leave all out":                  {define(job("a", "test", no), job("b", "test", no)), "no job is part of it: the rules leave all of them out", []string{"a", "b"}},
		"there are none":                       {define(), "there are no jobs", []string{}},
		".pre and .post alone are no pipeline": {define(job("a", ".pre"), job("b", ".post"), job("c", "test", no)), "only jobs of the stages .pre and .post are part of it, and those run with others only", []string{"c", "a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := build(t, test.d, onMain())
			if len(p.Jobs) != 0 || len(p.Stages) != 0 || p.Reason() != test.reason {
				t.Errorf("got %q, %q", names(p.Jobs), p.Reason())
			}
			if diff := cmp.Diff(test.excluded, names(p.Excluded)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run(".pre runs with others", func(t *testing.T) {
		if p := build(t, define(job("a", ".pre"), job("b", "test")), onMain()); len(p.Jobs) != 2 {
			t.Errorf("there are %q", names(p.Jobs))
		}
	})
}

func TestWhatIsProbablyNotMeantIsTold(t *testing.T) {
	odd := if_(t, `$CI_COMMIT_BRANCH =~ "main"`)
	p := build(t, define(job("a", "test", rules(odd)), job("b", "test", rules(odd))), onMain())
	if len(p.Warnings) != 1 {
		t.Errorf("one note for the same rule of all jobs, got %v", texts(p.Warnings))
	}
}

func TestAnExpressionThatCannotBeDecided(t *testing.T) {
	facts := onMain("LONG", strings.Repeat("a", 100_000))
	d := mustRead(t, "a:\n  script: x\n  rules:\n    - if: $NOPE\n    - if: $LONG =~ /(a|b|c){1,500}x/\n")
	_, err := pipeline.New(d, facts)
	list := diag.Of(err)
	if len(list) != 1 || !strings.HasPrefix(list[0].Error(), `.gitlab-ci.yml:5:11: the job "a": rule 2: `) {
		t.Errorf("got %v", err)
	}
	t.Run("of the workflow", func(t *testing.T) {
		d := mustRead(t, "workflow:\n  rules:\n    - if: $LONG =~ /(a|b|c){1,500}x/\na:\n  script: x\n")
		p, err := pipeline.New(d, facts)
		if list := diag.Of(err); len(list) != 1 || !strings.HasPrefix(list[0].Error(), `.gitlab-ci.yml:3:11: workflow: rule 1: `) || len(p.Jobs) != 0 {
			t.Errorf("got %v", err)
		}
	})
}

func TestVariablesFromOutsideStandAtTheirLevel(t *testing.T) {
	r := keyword.Rule{}
	r.Rule.Variables = vars("WORKFLOW", "file")
	for _, test := range []struct {
		level      variable.Level
		name, want string
	}{
		{variable.Predefined, "GLOBAL", "file"}, {variable.Deployment, "GLOBAL", "file"}, {variable.Global, "GLOBAL", "file"},
		{variable.Workflow, "GLOBAL", "outside"}, {variable.Workflow, "WORKFLOW", "file"}, {variable.Job, "WORKFLOW", "outside"},
		{variable.Job, "JOB", "file"}, {variable.Rules, "JOB", "outside"}, {variable.ExecutionPolicy, "JOB", "outside"},
		{variable.Deployment, "CI_JOB_NAME", "outside"}, {variable.Predefined, "CI_JOB_NAME", "a"},
	} {
		t.Run(test.level.String()+" "+test.name, func(t *testing.T) {
			facts := onMain()
			facts.JobVariables = func(j *pipeline.Job) []variable.Variable { return vars("CI_JOB_NAME", j.Name) }
			facts.Variables = append(facts.Variables, variable.Layer{Level: test.level, Variables: vars(test.name, "outside")})
			d := define(job("a", "test", has("JOB", "file"), rules(if_(t, "$"+test.name+` == "`+test.want+`"`))))
			d.Variables = defined("GLOBAL", "file")
			d.Workflow.Rules = []keyword.Rule{r}
			p := build(t, d, facts)
			if len(p.Jobs) == 0 {
				t.Fatal(p.Excluded[0].Reason())
			}
			v, err := p.Jobs[0].Variables()
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := v.Lookup(test.name); got != test.want {
				t.Errorf("rules see %q, and the job gets %q", test.want, got)
			}
		})
	}
}

func TestPatternsWithLongChainsOfVariables(t *testing.T) {
	for _, n := range []int{1, 3, 10, 100} {
		var pairs []string
		for i := range n {
			pairs = append(pairs, fmt.Sprint("V", i), fmt.Sprint("$V", i+1))
		}
		var asked []string
		facts := onMain(append(pairs, fmt.Sprint("V", n), "end")...)
		facts.Exists = func(e when.Exists) (when.Answer, error) {
			asked = append(asked, e.Paths...)
			return when.Answer{Yes: true}, nil
		}
		build(t, define(job("a", "test", rules(keyword.Rule{Rule: when.Rule{Exists: &when.Exists{Paths: []string{"$V0/x"}}}}))), facts)
		if diff := cmp.Diff([]string{"end/x"}, asked); diff != "" {
			t.Errorf("a chain of %d: %s", n, diff)
		}
	}
}
