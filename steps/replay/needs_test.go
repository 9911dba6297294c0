package replay

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

// job is a recorded run as a job is compiled: every step of its own has all variables, and the sensitive ones by expressions.
func job(t *testing.T, steps string) *trace.Trace {
	t.Helper()
	recorded := run(func(r *trace.Trace) {
		r.Run.Component = &plan.Component{}
		if err := json.Unmarshal([]byte(steps), &r.Run.Component.Definition.Steps); err != nil {
			t.Fatal(err)
		}
		r.Run.Job = map[string]string{
			"KEY": shown("key"), "OTHER": shown("other"), "CI_JOB_TOKEN": shown("token"), "A_REGISTRY_PASSWORD": shown("token"), contentPrefix + "FILE": shown("file"),
		}
	})
	own := map[string]plan.Field{
		jobStatus: text("running"), "KEY": text("${{ vars.KEY }}"), "OTHER": text("${{ vars.OTHER }}"), "URL": text("pg://${{ vars.KEY }}@db"),
		"FILE": text("/builds/p.tmp/FILE"), "CONFIG": text("/builds/p.tmp/FILE"), "CI_JOB_TOKEN": text("${{ vars.CI_JOB_TOKEN }}"),
	}
	list := recorded.Run.Component.Definition.Steps
	for i := range list {
		if list[i].Env == nil {
			list[i].Env = own
		}
		recorded.Steps = append(recorded.Steps, &trace.Step{ID: string(rune('1' + i)), Name: list[i].Name, Status: event.Success})
	}
	return recorded
}

func text(s string) plan.Field { return plan.Field{Value: value.OfString(s)} }

// script is a step of the job that runs a line.
func script(name, line string) string {
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	return `{"name": "` + name + `", "ref": {"kind": "builtin", "path": ["script"]}, "inputs": {"lines": [` + string(data) + `]}}`
}

func TestASecretHasToBeGivenWhereAStepThatRunsNamesIt(t *testing.T) {
	// A call of a component gets nothing of the job's but what its caller passes.
	call := func(fields string) string {
		return `{"name": "call", "ref": {"kind": "local", "path": ["call"]}, "env": {}, ` + fields + `}`
	}
	for _, c := range []struct {
		name   string
		steps  string // separated by commas
		change func(*trace.Trace)
		opts   Options
		want   []string
	}{
		{name: "a step that names none", steps: script("s", "make test")},
		{name: "a variable of a shell", steps: script("s", `curl -H "$KEY" x`), want: []string{"KEY"}},
		{name: "in braces, with a default", steps: script("s", `echo ${KEY:-none}`), want: []string{"KEY"}},
		{name: "of PowerShell", steps: script("s", `echo $env:KEY`), want: []string{"KEY"}},
		{name: "of cmd", steps: script("s", `echo %KEY%`), want: []string{"KEY"}},
		{name: "in a program", steps: script("s", `python -c 'import os; print(os.environ["KEY"])'`), want: []string{"KEY"}},
		{name: "of cmd, which takes any case", steps: script("s", `echo %key%`), want: []string{"KEY"}, change: func(r *trace.Trace) { r.Runtime.OS = "windows" }},
		{name: "another case", steps: script("s", `echo $key`)},
		{name: "by printenv", steps: script("s", "printenv KEY"), want: []string{"KEY"}},
		{name: "by the name of the variable in another one", steps: script("s", "name=KEY\necho ${!name}"), want: []string{"KEY"}},
		{name: "behind a line's end", steps: script("s", "cat <<E\nKEY\nE"), want: []string{"KEY"}},
		{name: "a name in another name", steps: script("s", "echo $KEYS $MY_KEY $KEY2")},
		{name: "the whole environment", steps: script("s", "env; printenv; ./deploy.sh")},
		{name: "a name that is made when it runs", steps: script("s", `n=K; n=${n}EY; echo ${!n}`)},
		{name: "a secret in the value of a variable that a step names", steps: script("s", "psql $URL"), want: []string{"KEY"}},
		{name: "a file", steps: script("s", "cat $FILE"), want: []string{"FILE"}},
		{name: "a file by a variable with its path", steps: script("s", "cat $CONFIG"), want: []string{"FILE"}},
		{name: "a file by its path", steps: script("s", "cat /builds/p.tmp/FILE"), want: []string{"FILE"}},
		{name: "an expression", steps: call(`"inputs": {"token": "${{ vars.KEY }}"}`), want: []string{"KEY"}},
		{name: "an environment that the author wrote", steps: call(`"env": {"KEY": "${{ vars.KEY }}"}`), want: []string{"KEY"}},
		{name: "a secret that is granted", steps: call(`"secrets": {"MINE": "KEY"}`), want: []string{"KEY"}},
		{name: "a condition", steps: call(`"if": "vars.KEY != ''"`), want: []string{"KEY"}},
		{name: "another variable of the same value", steps: call(`"inputs": {"token": "${{ vars.A_REGISTRY_PASSWORD }}"}`), want: []string{"CI_JOB_TOKEN"}},
		{name: "a step in a list", steps: `{"name": "run", "inline": {"spec": {}, "definition": {"steps": [` + script("s", "echo $KEY") + `]}}}`, want: []string{"KEY"}},
		{name: "a step of a group", steps: `{"name": "both", "parallel": [` + script("a", "echo $KEY") + `,` + script("b", "echo $OTHER") + `]}`, want: []string{"KEY", "OTHER"}},
		{name: "a component that asks for it", steps: script("s", "true"), want: []string{"KEY"}, change: func(r *trace.Trace) {
			r.Steps[0].Resolved = &trace.Resolved{Digest: "d", File: "func.yml"}
			r.Components = map[string]*plan.Component{r.Steps[0].Resolved.Key(): {Spec: plan.Spec{Env: map[string]plan.EnvRequest{"KEY": {}, "OTHER*": {}}}}}
		}},

		{name: "a step that was skipped", steps: script("s", "echo $KEY"), change: skip},
		{name: "a condition by which a step was skipped", steps: call(`"inputs": {"x": "${{ vars.OTHER }}"}, "if": "vars.KEY == ''"`), change: skip, want: []string{"KEY"}},
		{name: "a step that was skipped and may run with other components", steps: script("s", "echo $KEY"), change: skip, opts: Options{Changed: true}, want: []string{"KEY"}},
		{name: "a step before the part", steps: script("a", "echo $KEY") + "," + script("b", "echo $OTHER"), opts: Options{From: "b"}, want: []string{"OTHER"}},
		{name: "a step behind the part", steps: script("a", "echo $KEY") + "," + script("b", "echo $OTHER"), opts: Options{Until: "a"}, want: []string{"KEY"}},
		{name: "a step that a killed run did not reach", steps: script("a", "echo $KEY") + "," + script("b", "echo $OTHER"), want: []string{"KEY"},
			change: func(r *trace.Trace) { r.Incomplete, r.Steps = true, r.Steps[:1] }},

		{name: "all, where that is wanted", steps: script("s", "true"), opts: Options{AllSecrets: true}, want: []string{"CI_JOB_TOKEN", "FILE", "KEY", "OTHER"}},
		{name: "all, where one was in the text of the steps: it has to be masked", steps: script("s", "echo [MASKED]"), want: []string{"CI_JOB_TOKEN", "FILE", "KEY", "OTHER"}},
		{name: "not those that were given", steps: script("s", "echo $KEY $OTHER $CI_JOB_TOKEN $FILE"), want: []string{"OTHER"},
			opts: Options{Given: map[string]string{"KEY": "key", "A_REGISTRY_PASSWORD": "token", "FILE": "file"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded := job(t, "["+c.steps+"]")
			if c.change != nil {
				c.change(recorded)
			}
			needs, err := NewNeeds(recorded, &c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, needs.Missing()); diff != "" {
				t.Errorf("what has to be given (-want +got):\n%s", diff)
			}
		})
	}
}

func skip(r *trace.Trace) { r.Steps[0].Status = event.Skipped }

func TestAPlaceholderIsUsedForWhatNoStepNames(t *testing.T) {
	recorded := job(t, "["+script("s", "echo $KEY")+"]")
	recorded.Run.Job["DSN"] = "pg://me:[MASKED]@db" // not sensitive as a whole
	recorded.Run.Secrets = map[string]string{"GRANTED": engine.Digest(key, "granted")}
	o := options()
	o.Given = map[string]string{"KEY": "key"}
	r, err := New(recorded, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"CI_JOB_TOKEN", "DSN", "FILE", "GRANTED", "OTHER"}; !slices.Equal(r.Placeholders, want) {
		t.Errorf("placeholders for %v, want %v", r.Placeholders, want)
	}
	var opts engine.Options
	r.Apply(&opts)
	token := engine.Variable{Value: Placeholder("CI_JOB_TOKEN"), Sensitive: true}
	want := map[string]engine.Variable{
		"KEY": {Value: "key", Sensitive: true}, "OTHER": {Value: Placeholder("OTHER"), Sensitive: true}, "CI_JOB_TOKEN": token, "A_REGISTRY_PASSWORD": token,
		contentPrefix + "FILE": {Value: Placeholder("FILE"), Sensitive: true}, "DSN": {Value: "pg://me:" + Placeholder("DSN") + "@db"},
	}
	if diff := cmp.Diff(want, opts.Job); diff != "" {
		t.Errorf("the job variables (-want +got):\n%s", diff)
	}
	if opts.Secrets["GRANTED"] != Placeholder("GRANTED") || len(opts.Placeholders) != len(r.Placeholders) {
		t.Errorf("secrets %v, placeholders %v", opts.Secrets, opts.Placeholders)
	}
}

func TestAnyNameOfAValueGivesIt(t *testing.T) {
	for _, c := range []struct {
		name, given, text string
		kind              event.ErrorKind
	}{
		{name: "the one that it is asked for by", given: "CI_JOB_TOKEN", text: "token"},
		{name: "the one that a step names", given: "A_REGISTRY_PASSWORD", text: "token"},
		{name: "another value", given: "CI_JOB_TOKEN", text: "token2", kind: event.ErrorDenied},
		{name: "none", given: "KEY", text: "key", kind: event.ErrorDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Given = map[string]string{c.given: c.text}
			r, err := New(job(t, "["+script("s", "echo $A_REGISTRY_PASSWORD")+"]"), o)
			if e, _ := err.(*event.Error); c.kind != "" {
				if e == nil || e.Kind != c.kind {
					t.Errorf("the error is %v", err)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			var opts engine.Options
			if r.Apply(&opts); opts.Job["A_REGISTRY_PASSWORD"].Value != "token" || opts.Job["CI_JOB_TOKEN"].Value != "token" {
				t.Errorf("the job variables are %v", opts.Job)
			}
		})
	}
}

func TestWhatIsGivenIsRecognizedByItsDigest(t *testing.T) {
	recorded := job(t, "["+script("s", "true")+"]")
	recorded.Run.Job[contentPrefix+"FILE"] = shown("file\n")
	for _, c := range []struct{ name, given, text, of, want string }{
		{"by its name", "KEY", "key", "KEY", "key"},
		{"a file without the end of its line", "FILE", "file", contentPrefix + "FILE", "file\n"},
		{"a variable of a service", "DB_PASSWORD", "key", "KEY", "key"},
		{"which is not another one", "DB_PASSWORD", "key2", "KEY", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			needs, err := NewNeeds(recorded, &Options{Given: map[string]string{c.given: c.text}})
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := needs.Given(c.of); got != c.want || ok != (c.want != "") {
				t.Errorf("%s is %q, %v", c.of, got, ok)
			}
		})
	}
}
