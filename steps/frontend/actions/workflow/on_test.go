package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/actions/workflow"
)

func on(t *testing.T, text string) *workflow.On {
	t.Helper()
	return &parse(t, "on: "+text+"\n"+jobs).On
}

func push(ref string) workflow.Event { return workflow.Event{Name: "push", Ref: ref} }

func pull(base, action string) workflow.Event {
	return workflow.Event{Name: "pull_request", Ref: "refs/pull/1/merge", BaseRef: base, Action: action}
}

func changed(e workflow.Event, files ...string) workflow.Event {
	e.ChangedFiles = append([]string{}, files...)
	return e
}

func TestEventsStartAWorkflow(t *testing.T) {
	t.Parallel()
	main, tag := push("refs/heads/main"), push("refs/tags/v1.2")
	for name, c := range map[string]struct {
		on     string
		event  workflow.Event
		reason string // "" starts it
	}{
		"a name":                        {"push", main, ""},
		"another name":                  {"push", pull("main", "opened"), "the workflow runs on push, not on pull_request"},
		"one of a list":                 {"[push, pull_request]", pull("main", "opened"), ""},
		"one of a map":                  {"{push: , pull_request: }", pull("main", "opened"), ""},
		"a branch":                      {"{push: {branches: [main, dev]}}", main, ""},
		"a branch alone":                {"{push: {branches: main}}", main, ""},
		"a filter of nothing":           {"{push: {branches: , tags-ignore: , paths: ['src/**']}}", changed(main, "src/a"), ""},
		"a filter of nothing and not":   {"{push: {branches: , branches-ignore: [main]}}", main, "is among those of on.push.branches-ignore"},
		"an empty list of filters":      {"{pull_request: []}", pull("main", "opened"), ""},
		"another branch":                {"{push: {branches: [dev]}}", main, "the branch main is not among those of on.push.branches"},
		"a branch and not a tag":        {"{push: {branches: ['**']}}", tag, "filters for branches only"},
		"a tag and not a branch":        {"{push: {tags: ['v*']}}", main, "filters for tags only"},
		"a tag":                         {"{push: {tags: ['v*']}}", tag, ""},
		"either":                        {"{push: {tags: ['v*'], branches: [main]}}", main, ""},
		"all but a branch":              {"{push: {branches-ignore: [main]}}", main, "is among those of on.push.branches-ignore"},
		"all but another branch":        {"{push: {branches-ignore: [dev]}}", main, ""},
		"all but a tag":                 {"{push: {tags-ignore: ['v1*']}}", tag, "is among those of on.push.tags-ignore"},
		"all but a branch, and a tag":   {"{push: {branches-ignore: [dev]}}", tag, "filters for branches only"},
		"! takes out":                   {"{push: {branches: ['m*', '!main']}}", main, "not among"},
		"the last one that matches":     {"{push: {branches: ['**', '!m*', main]}}", main, ""},
		"a changed file":                {"{push: {paths: ['src/**']}}", changed(main, "src/a/b.go", "x"), ""},
		"no changed file":               {"{push: {paths: ['src/**']}}", changed(main, "doc/a.md"), "no changed file is among"},
		"no files at all":               {"{push: {paths: ['src/**']}}", changed(main), "no changed file is among"},
		"files that nobody knows":       {"{push: {paths: ['src/**']}}", main, ""},
		"files of a tag":                {"{push: {tags: ['*'], paths: ['src/**']}}", changed(tag, "doc/a.md"), ""},
		"! in paths":                    {"{push: {paths: ['src/**', '!src/x/**']}}", changed(main, "src/x/a"), "no changed file"},
		"ignored files":                 {"{push: {paths-ignore: ['**.md']}}", changed(main, "a.md", "b/c.md"), "all changed files are among"},
		"ignored files and another":     {"{push: {paths-ignore: ['**.md']}}", changed(main, "a.md", "b.go"), ""},
		"branch and path":               {"{push: {branches: [main], paths: [a]}}", changed(main, "a"), ""},
		"branch without path":           {"{push: {branches: [main], paths: [a]}}", changed(main, "b"), "no changed file"},
		"a pull request":                {"pull_request", pull("main", "synchronize"), ""},
		"a pull request that is closed": {"pull_request", pull("main", "closed"), "the activity closed is not among those of on.pull_request: opened, synchronize, reopened"},
		"a pull request that may be":    {"{pull_request: {types: [closed]}}", pull("main", "closed"), ""},
		"the branch it goes to":         {"{pull_request: {branches: ['releases/**']}}", pull("releases/v1", "opened"), ""},
		"another that it goes to":       {"{pull_request: {branches: ['releases/**']}}", pull("main", "opened"), "the branch main is not among"},
		"an activity nobody knows":      {"pull_request", pull("main", ""), ""},
		"all activities of others":      {"issues", workflow.Event{Name: "issues", Action: "pinned"}, ""},
		"a kind of dispatch":            {"{repository_dispatch: {types: [deploy]}}", workflow.Event{Name: "repository_dispatch", Action: "deploy"}, ""},
		"another kind of dispatch":      {"{repository_dispatch: {types: [deploy]}}", workflow.Event{Name: "repository_dispatch", Action: "x"}, "the activity x"},
		"a schedule":                    {"{schedule: [{cron: '0 5 * * 1-5'}]}", workflow.Event{Name: "schedule", Schedule: "0 5 * * 1-5"}, ""},
		"every 60 minutes":              {"{schedule: [{cron: '*/60 * * * */7'}]}", workflow.Event{Name: "schedule", Schedule: "*/60 * * * */7"}, ""},
		"another schedule":              {"{schedule: [{cron: '0 5 * * 1-5'}]}", workflow.Event{Name: "schedule", Schedule: "0 6 * * *"}, "is not among the lines of on.schedule"},
		"a workflow that ran":           {"{workflow_run: {workflows: [CI]}}", workflow.Event{Name: "workflow_run", Workflow: "CI", Action: "completed", Ref: "refs/heads/main"}, ""},
		"another workflow that ran":     {"{workflow_run: {workflows: [CI]}}", workflow.Event{Name: "workflow_run", Workflow: "x"}, "the workflow x is not among"},
		"a branch of a run":             {"{workflow_run: {workflows: [CI], branches: [dev]}}", workflow.Event{Name: "workflow_run", Ref: "refs/heads/main"}, "the branch main"},
		"by hand":                       {"workflow_dispatch", workflow.Event{Name: "workflow_dispatch", Ref: "refs/heads/x"}, ""},
		"a version of an image":         {"{image_version: {versions: ['1.*']}}", workflow.Event{Name: "image_version", Payload: object(t, `{"image_version": {"version": "2.0"}}`)}, "2.0 is not among"},
	} {
		t.Run(name, func(t *testing.T) {
			matches, reason := on(t, c.on).Matches(c.event)
			if matches != (c.reason == "") || !strings.Contains(reason, c.reason) {
				t.Errorf("%t, %q; want %q", matches, reason, c.reason)
			}
		})
	}
}

func TestPatternsOfFilters(t *testing.T) {
	t.Parallel()
	for pattern, c := range map[string]struct{ yes, no string }{
		"feature/*":           {"feature/a feature/", "feature/a/b feature"},
		"feature/**":          {"feature/a feature/a/b", "features/a"},
		"main":                {"main", "mains xmain"},
		"*":                   {"main v1", "a/b"},
		"**":                  {"main a/b/c", ""},
		"*feature":            {"feature my-feature", "a/feature features"},
		"v2*":                 {"v2 v2.0 v2.9", "v1"},
		"v[12].[0-9]+.[0-9]+": {"v1.10.1 v2.0.0", "v3.0.0 v1.x.0"},
		"**.js":               {"a.js a/b.js", "a.jsx"},
		"*.jsx?":              {"page.js page.jsx", "page.jsxx a/page.js"},
		"**/README.md":        {"README.md js/README.md a/b/README.md", "xREADME.md"},
		"**/docs/**":          {"docs/a a/docs/b/c", "docs mydocs/a"},
		"docs/**/*.md":        {"docs/README.md docs/a/b/c.md", "docs/a.txt x/docs/a.md"},
		"**/*-post.md":        {"my-post.md path/their-post.md", "post.md"},
		"a\\*b":               {"a*b", "axb"},
		"a\\[b":               {"a[b", "ab"},
		"colou?r":             {"color colour", "colouur"},
		"[CB]at":              {"Cat Bat", "cat at"},
		"[a-zA-Z0-9]":         {"a 7", "ä - ab"},
		"go+":                 {"go goo", "g"},
		"a.b":                 {"a.b", "axb"},
	} {
		filter := on(t, "{push: {branches: ['"+pattern+"']}}")
		for _, name := range strings.Fields(c.yes) {
			if ok, _ := filter.Matches(push("refs/heads/" + name)); !ok {
				t.Errorf("%s does not match %s", pattern, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if ok, _ := filter.Matches(push("refs/heads/" + name)); ok {
				t.Errorf("%s matches %s", pattern, name)
			}
		}
	}
}

func TestAFilterOfTagsMayOnlyExcludeBesideOneOfBranches(t *testing.T) {
	t.Parallel()
	filter := on(t, "{push: {branches: ['**'], tags: ['!**']}}")
	if ok, why := filter.Matches(push("refs/heads/main")); !ok {
		t.Error(why)
	}
	if ok, _ := filter.Matches(push("refs/tags/v1")); ok {
		t.Error("a tag starts the workflow")
	}
}

func TestMistakesOfEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		on   string
		want []string
	}{
		"an unknown event":                {"§psuh", []string{`no event "psuh"`}},
		"an unknown one in a list":        {"[push, §pul]", []string{`no event "pul"`}},
		"a list in a list":                {"[§[push]]", []string{"an event must be a string"}},
		"the same twice":                  {"[push, §push]", []string{"named twice"}},
		"nothing":                         {"§[]", []string{"no event starts the workflow"}},
		"a key that a call does not have": {"{workflow_call: {§types: [x]}}", []string{`unknown key "types"`}},
		"an unknown activity":             {"{pull_request: {types: [opened, §open]}}", []string{`has no activity "open"`}},
		"branches and not":                {"{push: {branches: [a], branches-ignore: §[b]}}", []string{"exclude each other"}},
		"paths and not":                   {"{push: {paths: [a], paths-ignore: §[b]}}", []string{"exclude each other"}},
		"only what is out":                {"{push: {branches: §['!a']}}", []string{"only excludes"}},
		"no patterns":                     {"{push: {branches: §[]}}", []string{"has no patterns"}},
		"an open bracket":                 {"{push: {branches: [§'a[b']}}", []string{"not closed"}},
		"an empty range":                  {"{push: {branches: [§'[z-a]']}}", []string{"range z-a"}},
		"a plus at the start":             {"{push: {branches: [§'+a']}}", []string{"repeats the character before it"}},
		"a backslash at the end":          {`{push: {branches: [§'a\']}}`, []string{"nothing to escape"}},
		"no workflows to wait for":        {"{workflow_run: §{types: [completed]}}", []string{"must name the workflows"}},
		"a schedule without times":        {"{schedule: §[]}", []string{"needs cron lines"}},
		"a schedule of nothing":           {"{schedule: [§{}]}", []string{"has no time"}},
		"four fields":                     {"{schedule: [{cron: §'* * * *'}]}", []string{"five fields"}},
		"a name for a time":               {"{schedule: [{cron: §'@daily'}]}", []string{"does not support @daily"}},
		"minute 60":                       {"{schedule: [{cron: §'60 * * * *'}]}", []string{`"60" is not a valid minute`}},
		"a day that is none":              {"{schedule: [{cron: §'0 0 * * MOO'}]}", []string{`"MOO" is not a valid day of the week`}},
		"a range backwards":               {"{schedule: [{cron: §'0 5-3 * * *'}]}", []string{"ends before it begins"}},
		"steps of nothing":                {"{schedule: [{cron: §'*/0 * * * *'}]}", []string{"is not a valid step for the minute"}},
		"a time zone that is none":        {"{schedule: [{cron: '0 0 * * *', timezone: §'a b'}]}", []string{"is not a time zone"}},
		"an input of another type":        {"{workflow_call: {inputs: {a: {type: §text}}}}", []string{"not an input type"}},
		"a type that is a list":           {"{workflow_dispatch: {inputs: {a: {type: §[number]}}}}", []string{"not an input type"}},
		"steps beyond the end":            {"{schedule: [{cron: §'*/61 * * * *'}]}", []string{"is not a valid step for the minute"}},
		"an input with a space":           {"{workflow_dispatch: {inputs: {§a b: }}}", []string{"cannot be the name of an input"}},
		"an input twice":                  {"{workflow_dispatch: {inputs: {a: , §A: }}}", []string{"is declared twice"}},
		"a choice without options":        {"{workflow_dispatch: {inputs: {§a: {type: choice}}}}", []string{"has no options"}},
		"options of a string":             {"{workflow_dispatch: {inputs: {a: {options: §[b]}}}}", []string{"is for choices"}},
		"a default that is no choice":     {"{workflow_dispatch: {inputs: {a: {type: choice, options: [b], default: §c}}}}", []string{"must be one of b"}},
		"a default that is not a truth":   {"{workflow_dispatch: {inputs: {a: {type: boolean, default: §x}}}}", []string{"must be true or false"}},
		"a call without types":            {"{workflow_call: {inputs: {§a: {}}}}", []string{"has no type"}},
		"a choice in a call":              {"{workflow_call: {inputs: {a: {type: §choice}}}}", []string{"not an input type"}},
		"secrets in a default":            {"{workflow_call: {inputs: {a: {type: string, default: '${{ §secrets.X }}'}}}}", []string{"secrets"}},
		"a secret of GitHub's":            {"{workflow_call: {secrets: {§GITHUB_TOKEN: }}}", []string{"cannot be the name of a secret"}},
		"an output without value":         {"{workflow_call: {outputs: {§a: {}}}}", []string{"has no value"}},
		"an output of steps":              {"{workflow_call: {outputs: {a: {value: '${{ §steps.x }}'}}}}", []string{"steps"}},
		"26 inputs":                       {"{workflow_dispatch: {inputs: §{" + strings.Repeat("@: , ", 26) + "}}}", []string{"has 26 inputs"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; strings.Contains(c.on, "@:"); i++ {
				c.on = strings.Replace(c.on, "@:", string(rune('a'+i))+":", 1)
			}
			mistakes(t, "on: "+c.on+"\n"+jobs, c.want)
		})
	}
}

func TestWhatStartsAWorkflow(t *testing.T) {
	t.Parallel()
	o := on(t, "{schedule: [{cron: '*/15 2,10-12 1 JAN-mar,5 SUN', timezone: Europe/London}], push: , workflow_dispatch: }")
	if diff := cmp.Diff([]string{"schedule", "push", "workflow_dispatch"}, o.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]workflow.Schedule{{Cron: "*/15 2,10-12 1 JAN-mar,5 SUN", Timezone: "Europe/London"}}, o.Schedules()); diff != "" {
		t.Error(diff)
	}
	if !o.Has("push") || o.Has("pull_request") {
		t.Error(o.Names())
	}
}

func TestKeysThatAnEventDoesNotHaveAreNotes(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"{push: {branches: [a], workflow_dispatch: }}", "{pull_request: {types: [opened], tags: [v1]}}", "{workflow_dispatch: {branches: [a]}}"} {
		w, err := workflow.Parse("ci.yml", []byte("on: "+on+"\n"+jobs))
		if err != nil || len(w.Notes) != 1 || !strings.Contains(w.Notes[0].Message, "which GitHub ignores") {
			t.Errorf("%s: %v, notes %v", on, err, w)
		}
	}
}
