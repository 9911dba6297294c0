package when_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// facts are facts for tests: files are matched literally.
type facts struct {
	*variable.Collection
	changed, exist []string
	pipeline       when.Pipeline
	asked          []string
}

var errRef = errors.New("compare_to: there is no ref nowhere")

func (f *facts) Changed(c when.Changes) (when.Answer, error) {
	f.asked = append(f.asked, "changes")
	if c.CompareTo == "nowhere" {
		return when.Answer{}, errRef
	}
	return when.Answer{Yes: common(f.changed, c.Paths)}, nil
}

func (f *facts) Exists(e when.Exists) (when.Answer, error) {
	f.asked = append(f.asked, "exists")
	if common(f.exist, e.Paths) {
		return when.Answer{Yes: true, Why: "Dockerfile is there"}, nil
	}
	return when.Answer{}, nil
}

func (f *facts) Pipeline() when.Pipeline { return f.pipeline }

func common(a, b []string) bool {
	return strings.Contains(" "+strings.Join(a, " ")+" ", " "+strings.Join(b, " ")+" ") && len(a) > 0
}

func newFacts() *facts {
	return &facts{
		Collection: variable.New(
			variable.Variable{Name: "BRANCH", Value: "main"}, variable.Variable{Name: "TOKEN", Value: "hunter2", Masked: true},
			variable.Variable{Name: "PATTERN", Value: "main"},
		),
		changed: []string{"main.go"}, exist: []string{"Dockerfile"},
		pipeline: when.Pipeline{Kind: when.Branch, Ref: "main", Source: "push", Project: "group/project"},
	}
}

func parse(t *testing.T, text string) *rule.Expression {
	t.Helper()
	e, err := rule.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestDecide(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	main, dev := parse(t, `$BRANCH == "main"`), parse(t, `$BRANCH == "dev"`)
	changed := &when.Changes{Paths: []string{"main.go"}}
	unchanged := &when.Changes{Paths: []string{"a.md", "b.md", "c.md", "d.md", "e.md"}}
	exists, missing := &when.Exists{Paths: []string{"Dockerfile"}}, &when.Exists{Paths: []string{"Makefile"}}
	for name, test := range map[string]struct {
		rules  []when.Rule
		rule   int
		when   when.When
		reason string
	}{
		"without rules the job is added as it is":   {nil, when.NoRule, when.OnSuccess, "there are no rules"},
		"with empty rules it is not":                {[]when.Rule{}, when.NoRule, when.Never, "no rule applies: there are none"},
		"a rule without conditions always applies":  {[]when.Rule{{}}, 0, when.OnSuccess, "rule 1: it has no conditions"},
		"a rule that applies":                       {[]when.Rule{{If: main}}, 0, when.OnSuccess, `rule 1: $BRANCH is "main"`},
		"its when":                                  {[]when.Rule{{If: main, When: when.Manual}}, 0, when.Manual, `rule 1: $BRANCH is "main"`},
		"never":                                     {[]when.Rule{{If: main, When: when.Never}, {}}, 0, when.Never, `rule 1: $BRANCH is "main"`},
		"the first rule that applies decides":       {[]when.Rule{{If: dev}, {If: main, When: when.Always}, {When: when.Never}}, 1, when.Always, `rule 2: $BRANCH is "main"`},
		"no rule applies":                           {[]when.Rule{{If: dev}, {Exists: missing}}, when.NoRule, when.Never, `no rule applies: rule 1: $BRANCH is "main", not "dev"; rule 2: no file that matches Makefile exists`},
		"many rules":                                {[]when.Rule{{If: dev}, {If: dev}, {If: dev}, {If: dev}, {If: dev}, {If: dev}, {If: dev}}, when.NoRule, when.Never, "; and 2 more"},
		"files that were changed":                   {[]when.Rule{{Changes: changed}}, 0, when.OnSuccess, "rule 1: a file that matches main.go was changed"},
		"files that were not changed":               {[]when.Rule{{Changes: unchanged}}, when.NoRule, when.Never, "rule 1: no file that matches a.md or b.md or c.md or 2 more was changed"},
		"files that exist, and what the facts say":  {[]when.Rule{{Exists: exists}}, 0, when.OnSuccess, "rule 1: Dockerfile is there"},
		"all conditions must hold, and they do":     {[]when.Rule{{If: main, Changes: changed, Exists: exists}}, 0, when.OnSuccess, `rule 1: $BRANCH is "main", and a file that matches main.go was changed, and Dockerfile is there`},
		"all conditions must hold, if does not":     {[]when.Rule{{If: dev, Changes: changed}}, when.NoRule, when.Never, `rule 1: $BRANCH is "main", not "dev"`},
		"all conditions must hold, changes do not":  {[]when.Rule{{If: main, Changes: unchanged, Exists: exists}}, when.NoRule, when.Never, "no file that matches a.md"},
		"all conditions must hold, exists does not": {[]when.Rule{{If: main, Changes: changed, Exists: missing}}, when.NoRule, when.Never, "no file that matches Makefile exists"},
		"secrets are not shown":                     {[]when.Rule{{If: parse(t, `$TOKEN != "x"`)}}, 0, when.OnSuccess, `rule 1: $TOKEN is not "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := when.Decide(test.rules, when.OnSuccess, newFacts())
			if err != nil {
				t.Fatal(err)
			}
			if got.Rule != test.rule || got.When != test.when || got.Added() != (test.when != when.Never) {
				t.Errorf("got rule %d, %s", got.Rule, got.When)
			}
			if reason := got.Reason(); !strings.Contains(reason, test.reason) {
				t.Errorf("got %q, want %q", reason, test.reason)
			}
		})
	}
	t.Run("what else the rule says", func(t *testing.T) {
		t.Parallel()
		set := []variable.Variable{{Name: "X", Value: "1"}}
		got, err := when.Decide([]when.Rule{
			{If: dev, AllowFailure: &no},
			{When: when.Delayed, StartIn: "1 hour", AllowFailure: &yes, Interruptible: &no, Variables: set},
		}, when.Manual, newFacts())
		if err != nil {
			t.Fatal(err)
		}
		if got.StartIn != "1 hour" || got.AllowFailure != &yes || got.Interruptible != &no || cmp.Diff(set, got.Variables) != "" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("facts of files are asked for only when they matter", func(t *testing.T) {
		t.Parallel()
		f := newFacts()
		if _, err := when.Decide([]when.Rule{{If: dev, Changes: changed}, {Exists: exists, Changes: unchanged}, {If: main}, {Exists: exists}}, when.OnSuccess, f); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"changes"}, f.asked); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("what is probably not meant is noted", func(t *testing.T) {
		t.Parallel()
		got, err := when.Decide([]when.Rule{{If: parse(t, `$BRANCH =~ $PATTERN`)}}, when.OnSuccess, newFacts())
		if err != nil || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "$PATTERN is not of the form /pattern/") {
			t.Errorf("got %v, %v", got.Notes, err)
		}
	})
	t.Run("errors name the rule", func(t *testing.T) {
		t.Parallel()
		_, err := when.Decide([]when.Rule{{If: dev}, {Changes: &when.Changes{CompareTo: "nowhere"}}}, when.OnSuccess, newFacts())
		if !errors.Is(err, errRef) || !strings.HasPrefix(err.Error(), "rule 2: changes: ") {
			t.Errorf("got %v", err)
		}
		_, err = when.Decide([]when.Rule{{If: parse(t, `$BRANCH =~ true`)}}, when.OnSuccess, newFacts())
		var bad *rule.Error
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "rule 1: ") {
			t.Errorf("got %v", err)
		}
	})
	if (when.Verdict{}).Reason() != "" {
		t.Error("a zero verdict has a reason")
	}
}

func refs(t *testing.T, texts ...string) []when.Ref {
	t.Helper()
	list := make([]when.Ref, 0, len(texts))
	for _, text := range texts {
		r, err := when.ParseRef(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func TestRef(t *testing.T) {
	t.Parallel()
	push := when.Pipeline{Kind: when.Branch, Ref: "main", Source: "push", Project: "group/project"}
	tag := when.Pipeline{Kind: when.Tag, Ref: "v1.2", Source: "push", Project: "group/project"}
	request := when.Pipeline{Kind: when.MergeRequest, Ref: "main", Source: "merge_request_event", Project: "group/project"}
	from := func(source string) when.Pipeline {
		return when.Pipeline{Kind: when.Branch, Ref: "main", Source: source, Project: "group/project"}
	}
	for _, test := range []struct {
		ref      string
		pipeline when.Pipeline
		want     bool
	}{
		{"branches", push, true}, {"branches", tag, false}, {"branches", request, false},
		{"tags", tag, true}, {"tags", push, false}, {"tags", request, false},
		{"pushes", push, true}, {"push", push, true}, {"pushes", tag, true}, {"pushes", request, false},
		{"merge_requests", request, true}, {"merge_request", request, true}, {"merge_requests", push, false},
		{"schedules", from("schedule"), true}, {"api", from("api"), true}, {"web", from("web"), true}, {"triggers", from("trigger"), true},
		{"pipelines", from("pipeline"), true}, {"external", from("external"), true}, {"chat", from("chat"), true},
		{"external_pull_requests", from("external_pull_request_event"), true}, {"parent_pipelines", from("parent_pipeline"), true},
		{"web", from("webide"), false}, {"", from(""), false}, {"s", from(""), false},
		{"security_orchestration_policies", from("security_orchestration_policy"), true},

		{"main", push, true}, {"Main", push, false}, {"mai", push, false}, {"v1.2", tag, true}, {"main", request, false},
		{"/^ma/", push, true}, {"/^MA/", push, false}, {"/^MA/i", push, true}, {"/^v[0-9.]+$/", tag, true}, {"/^ma/", request, false},
		{"/x/", push, false}, {"issue-/.*/", push, false},

		{"main@group/project", push, true}, {"main@other/project", push, false}, {"branches@group/project", push, true},
		{"/^ma/@group/project", push, true}, {"/^ma/@other", push, false}, {"main@", push, false},
		{"/^v@1/", tag, false},
	} {
		got, err := refs(t, test.ref)[0].Matches(test.pipeline)
		if err != nil || got != test.want {
			t.Errorf("%s for %+v: got %v, %v", test.ref, test.pipeline, got, err)
		}
	}
	t.Run("a pattern that is not valid", func(t *testing.T) {
		t.Parallel()
		if _, err := when.ParseRef("/(?!x)a/"); err == nil || !strings.Contains(err.Error(), "the pattern /(?!x)a/ is not valid") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an @ in a pattern", func(t *testing.T) {
		t.Parallel()
		if note := refs(t, "/^v@1/")[0].Note(); !strings.Contains(note, `write \x40`) {
			t.Errorf("got %q", note)
		}
		for _, text := range []string{"main", "/^ma/@group/project", "main@group/project", "/^v/"} {
			if note := refs(t, text)[0].Note(); note != "" {
				t.Errorf("%s: got %q", text, note)
			}
		}
	})
}

func TestDecideLegacy(t *testing.T) {
	t.Parallel()
	main, dev := parse(t, `$BRANCH == "main"`), parse(t, `$BRANCH == "dev"`)
	request := func(f *facts) { f.pipeline.Kind, f.pipeline.Source = when.MergeRequest, "merge_request_event" }
	type policy = when.Policy
	for name, test := range map[string]struct {
		legacy when.Legacy
		with   func(*facts)
		added  bool
		reason string
	}{
		"nothing is said: branches":                    {when.Legacy{}, nil, true, "by default: branches matches (branch main, started by push)"},
		"nothing is said: tags":                        {when.Legacy{}, func(f *facts) { f.pipeline.Kind = when.Tag }, true, "by default: tags matches"},
		"nothing is said: no merge requests":           {when.Legacy{}, request, false, "by default: not branches or tags (merge request main, started by merge_request_event)"},
		"nothing is said, but workflow rules":          {when.Legacy{WorkflowRules: true}, request, true, "there are no rules"},
		"only a name":                                  {when.Legacy{Only: &policy{Refs: refs(t, "dev", "main")}}, nil, true, "only: main matches"},
		"only another name":                            {when.Legacy{Only: &policy{Refs: refs(t, "dev", "tags")}}, nil, false, "only: not dev or tags"},
		"only merge requests":                          {when.Legacy{Only: &policy{Refs: refs(t, "merge_requests")}}, request, true, "only: merge_requests matches"},
		"except a name":                                {when.Legacy{Except: &policy{Refs: refs(t, "main")}}, nil, false, "except: main matches"},
		"except another name":                          {when.Legacy{Except: &policy{Refs: refs(t, "dev")}}, nil, true, "by default: branches matches (branch main, started by push); except: not dev"},
		"except alone keeps merge requests out":        {when.Legacy{Except: &policy{Refs: refs(t, "dev")}}, request, false, "by default: not branches or tags"},
		"except alone with workflow rules does not":    {when.Legacy{Except: &policy{Refs: refs(t, "dev")}, WorkflowRules: true}, request, true, "except: not dev"},
		"except beats only":                            {when.Legacy{Only: &policy{Refs: refs(t, "branches")}, Except: &policy{Refs: refs(t, "/^ma/")}}, nil, false, "except: /^ma/ matches"},
		"one of the variables":                         {when.Legacy{Only: &policy{Variables: asList(dev, main)}}, nil, true, `only: $BRANCH is "main"`},
		"none of the variables":                        {when.Legacy{Only: &policy{Variables: asList(dev)}}, nil, false, `only: $BRANCH is "main", not "dev"`},
		"variables do not free from branches and tags": {when.Legacy{Only: &policy{Variables: asList(main)}}, request, false, "only: not branches or tags"},
		"nor do they with workflow rules":              {when.Legacy{Only: &policy{Variables: asList(main)}, WorkflowRules: true}, request, false, "only: not branches or tags"},
		"except variables":                             {when.Legacy{Except: &policy{Variables: asList(main)}}, nil, false, `except: $BRANCH is "main"`},
		"changes":                                      {when.Legacy{Only: &policy{Changes: []string{"main.go"}}}, nil, true, "a file that matches main.go was changed"},
		"no changes":                                   {when.Legacy{Only: &policy{Changes: []string{"a.md"}}}, nil, false, "only: no file that matches a.md was changed"},
		"except changes":                               {when.Legacy{Except: &policy{Changes: []string{"main.go"}}}, nil, false, "except: a file that matches main.go was changed"},
		"all parts of only must hold":                  {when.Legacy{Only: &policy{Refs: refs(t, "main"), Variables: asList(main), Changes: []string{"a.md"}}}, nil, false, "only: no file that matches a.md"},
		"any part of except will do":                   {when.Legacy{Except: &policy{Refs: refs(t, "dev"), Variables: asList(main)}}, nil, false, "except: $BRANCH"},
		"a cluster":                                    {when.Legacy{Only: &policy{Kubernetes: true}}, func(f *facts) { f.pipeline.Kubernetes = true }, true, "has a Kubernetes cluster"},
		"no cluster":                                   {when.Legacy{Only: &policy{Kubernetes: true}}, nil, false, "has no Kubernetes cluster"},
		"except with a cluster":                        {when.Legacy{Except: &policy{Kubernetes: true}}, nil, true, "except: the project has no Kubernetes cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts()
			if test.with != nil {
				test.with(f)
			}
			got, err := when.DecideLegacy(test.legacy, when.Manual, f)
			if err != nil {
				t.Fatal(err)
			}
			want := when.Never
			if test.added {
				want = when.Manual
			}
			if got.When != want || got.Rule != when.NoRule || !strings.Contains(got.Reason(), test.reason) {
				t.Errorf("got %s because %q", got.When, got.Reason())
			}
		})
	}
	t.Run("errors say where", func(t *testing.T) {
		t.Parallel()
		bad := policy{Variables: asList(parse(t, `$BRANCH =~ true`))}
		if _, err := when.DecideLegacy(when.Legacy{Only: &bad}, when.OnSuccess, newFacts()); err == nil || !strings.HasPrefix(err.Error(), "only: variables: ") {
			t.Errorf("got %v", err)
		}
		if _, err := when.DecideLegacy(when.Legacy{Except: &bad}, when.OnSuccess, newFacts()); err == nil || !strings.HasPrefix(err.Error(), "except: variables: ") {
			t.Errorf("got %v", err)
		}
	})
}

func asList(e ...*rule.Expression) []*rule.Expression { return e }
