package keyword_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

func TestTrigger(t *testing.T) {
	of := func(text string) string { return "job:\n  trigger: " + text + "\n" }
	trigger := func(d *keyword.Definition) any {
		g := first(d).Trigger
		return fmt.Sprint(g.Project, "|", g.Branch, "|", len(g.Includes), g.Depend, g.Mirror, g.ForwardYAML, g.ForwardPipeline)
	}
	check(t, "trigger", []accepts{
		{"a project", of("group/project"), trigger, "group/project||0 false false true false"},
		{"a project in a map", of("{project: g/p, branch: main, strategy: depend, inputs: {a: 1}}"), trigger, "g/p|main|0 true false true false"},
		{"a project in a variable", of("$PROJECT"), trigger, "$PROJECT||0 false false true false"},
		{"a file", of("{include: child.yml, strategy: mirror}"), trigger, "||1 false true true false"},
		{"files of all kinds", of("{include: [{local: a.yml, inputs: {b: c}}, {artifact: x.yml, job: gen}, {project: g/p, file: a.yml, ref: main}]}") + "gen: {script: x}\n", trigger, "||3 false false true false"},
		{"more kinds", of("{include: [{template: a.yml}, {remote: 'https://x/a.yml'}, {component: h/p/c@1}]}"), trigger, "||3 false false true false"},
		{"what it forwards", of("{include: a.yml, forward: {yaml_variables: false, pipeline_variables: true}}"), trigger, "||1 false false false true"},
		{"other keywords of such jobs", of("g/p\n  stage: deploy\n  rules: [{if: $A}]\n  variables: {B: c}\n  needs: []\n  allow_failure: true\n  parallel: {matrix: [{A: b}]}"), nil, nil},
	}, []refuses{
		{"a script besides", of("g/p\n  script: make"), "3:3: a job with `trigger` runs nothing itself and cannot have `script`"},
		{"artifacts besides", of("g/p\n  artifacts: {paths: [a]}"), "3:3: a job with `trigger` runs nothing itself and cannot have `artifacts`"},
		{"a project without a group", of("project"), "\"project\" is not the path of a project"},
		{"neither project nor include", of("{branch: main}"), "`trigger` has neither a project nor an include"},
		{"a project and an include", of("{project: g/p, include: a.yml}"), "`trigger:include` and `trigger:project` exclude each other"},
		{"inputs beside an include", of("{include: a.yml, inputs: {b: c}}"), "`trigger:include` and `trigger:inputs` exclude each other\n  hint: write it into the item of `include:`"},
		{"another strategy", of("{project: g/p, strategy: wait}"), "`trigger:strategy` cannot be \"wait\""},
		{"four files", of("{include: [a.yml, b.yml, c.yml, d.yml]}"), "`trigger:include` names 4 files, and the limit is 3"},
		{"an artifact without a job", of("{include: [{artifact: a.yml}]}"), "an item of `trigger:include` with artifact has no job"},
		{"an artifact of a job that does not exist", of("{include: [{artifact: a.yml, job: gen}]}"), "the job of the artifact \"gen\" does not exist"},
		{"an include of no kind", of("{include: [{locl: a.yml}]}"), "an item of `trigger:include` does not name a place for the file\n  hint: did you mean \"local\"?"},
		{"a list", of("[g/p]"), "`trigger` must be a string or a map, not a list"},
		{"a delay", of("g/p\n  when: delayed"), "a job that triggers a pipeline cannot be delayed"},
		{"a number of copies", of("g/p\n  parallel: 2"), "`parallel` of a job that triggers a pipeline must be a map with a matrix"},
	})
}

func TestIDTokens(t *testing.T) {
	of := func(text string) string { return job("id_tokens: " + text) }
	check(t, "id_tokens", []accepts{
		{"an audience", of("{A: {aud: https://x}}"), func(d *keyword.Definition) any { return first(d).IDTokens[0].Audience }, []string{"https://x"}},
		{"audiences", of("{A: {aud: [a, b]}, B: {aud: c}}"), func(d *keyword.Definition) any {
			return []any{first(d).IDTokens[0].Audience, first(d).IDTokens[1].Name}
		}, []any{[]string{"a", "b"}, "B"}},
	}, []refuses{
		{"a token without an audience", of("{A: {}}"), "`id_tokens:A` has no aud"},
		{"an empty audience", of("{A: {aud: []}}"), "`id_tokens:A:aud` is empty"},
		{"a text", of("{A: x}"), "`id_tokens:A` must be a map, not a string"},
		{"another key", of("{A: {aud: x, sub: y}}"), "`id_tokens:A` has no key \"sub\""},
		{"a list", of("[A]"), "`id_tokens` must be a map, not a list"},
	})
}

func TestSecrets(t *testing.T) {
	of := func(text string) string { return job("secrets: {A: " + text + "}") }
	secret := func(d *keyword.Definition) any {
		s := first(d).Secrets[0]
		return []any{s.Name, s.Provider, s.File, s.Token, s.Settings}
	}
	check(t, "secrets", []accepts{
		{"a vault in short", of("{vault: production/db/password@ops}"), secret, []any{"A", "vault", true, "", map[string]string{"engine_name": "kv-v2", "engine_path": "ops", "path": "production/db", "field": "password"}}},
		{"a vault in short without an engine", of("{vault: db/password, file: false}"), secret, []any{"A", "vault", false, "", map[string]string{"engine_name": "kv-v2", "engine_path": "kv-v2", "path": "db", "field": "password"}}},
		{"a vault", of("{vault: {engine: {name: kv-v1, path: e}, path: p, field: f}, token: $T}"), secret, []any{"A", "vault", true, "$T", map[string]string{"engine_name": "kv-v1", "engine_path": "e", "path": "p", "field": "f"}}},
		{"Google's", of("{gcp_secret_manager: {name: n, version: 2}, token: $T}"), secret, []any{"A", "gcp_secret_manager", true, "$T", map[string]string{"name": "n", "version": "2"}}},
		{"Azure's", of("{azure_key_vault: {name: n, version: v}}"), secret, []any{"A", "azure_key_vault", true, "", map[string]string{"name": "n", "version": "v"}}},
		{"Amazon's", of("{aws_secrets_manager: {secret_id: i, field: f, region: r}}"), secret, []any{"A", "aws_secrets_manager", true, "", map[string]string{"secret_id": "i", "field": "f", "region": "r"}}},
		{"Amazon's in short", of("{aws_secrets_manager: i#f}"), secret, []any{"A", "aws_secrets_manager", true, "", map[string]string{"secret_id": "i", "field": "f"}}},
		{"GitLab's", of("{gitlab_secrets_manager: {name: n}}"), secret, []any{"A", "gitlab_secrets_manager", true, "", map[string]string{"name": "n"}}},
		{"Akeyless's", of("{akeyless: {name: n, data_key: k}}"), secret, []any{"A", "akeyless", true, "", map[string]string{"name": "n", "data_key": "k"}}},
	}, []refuses{
		{"a secret from nowhere", of("{file: true}"), "`secrets:A` does not name a place for the secret"},
		{"a secret from two places", of("{vault: a/b, azure_key_vault: {name: n}}"), "`secrets:A` has vault and azure_key_vault, and can have only one of them"},
		{"a vault without a field", of("{vault: password}"), "`secrets:A:vault` has neither a map nor a path and a field"},
		{"a vault's map without a path", of("{vault: {engine: {name: a, path: b}, field: f}}"), "`secrets:A:vault` has no path"},
		{"a vault's engine without a path", of("{vault: {engine: {name: a}, path: p, field: f}}"), "`secrets:A:vault:engine` has no path"},
		{"Google's without a token", of("{gcp_secret_manager: {name: n}}"), "`secrets:A` has no token, which gcp_secret_manager needs"},
		{"Azure's without a name", of("{azure_key_vault: {version: v}}"), "`secrets:A:azure_key_vault` has no name"},
		{"another place", of("{valt: a/b}"), "`secrets:A` has no key \"valt\"\n  hint: did you mean \"vault\"?"},
		{"a text", of("a"), "`secrets:A` must be a map, not a string"},
		{"a file that is a text", of("{vault: a/b, file: x}"), "`secrets:A:file` must be a boolean, not a string"},
	})
}

func TestIdentity(t *testing.T) {
	identity := func(d *keyword.Definition) any { return first(d).Identity }
	check(t, "identity", []accepts{
		{"Google's", job("identity: google_cloud"), identity, "google_cloud"},
		{"none", someJob, identity, ""},
	}, []refuses{
		{"another one", job("identity: google"), "`identity` cannot be \"google\"\n"},
		{"a list", job("identity: [google_cloud]"), "`identity` must be a string, not a list"},
		{"a boolean", job("identity: true"), "`identity` must be a string, not a boolean"},
	})
}

func TestDASTConfiguration(t *testing.T) {
	dast := func(d *keyword.Definition) any { return *first(d).DAST }
	check(t, "dast_configuration", []accepts{
		{"both profiles", job("dast_configuration: {site_profile: a, scanner_profile: b}"), dast, keyword.DAST{SiteProfile: "a", ScannerProfile: "b"}},
		{"one profile", job("dast_configuration: {site_profile: a}"), dast, keyword.DAST{SiteProfile: "a"}},
	}, []refuses{
		{"an empty map", job("dast_configuration: {}"), "`dast_configuration` is empty"},
		{"a text", job("dast_configuration: a"), "`dast_configuration` must be a map, not a string"},
		{"another key", job("dast_configuration: {profile: a}"), "`dast_configuration` has no key \"profile\""},
	})
}

func TestInputs(t *testing.T) {
	of := func(text string) string { return job("inputs: " + text) }
	check(t, "inputs", []accepts{
		{"a default", of("{a: {default: b}}"), func(d *keyword.Definition) any {
			return []string{first(d).Inputs[0].Name, first(d).Inputs[0].Type, first(d).Inputs[0].Default.Text()}
		}, []string{"a", "string", "b"}},
		{
			"types, options, a pattern", of("{a: {type: number, default: 2, options: [1, 2]}, b: {default: v1, regex: '^v\\d', description: d}, c: {type: boolean, default: false}, d: {type: array, default: []}}"),
			func(d *keyword.Definition) any {
				in := first(d).Inputs
				return []any{len(in[0].Options), in[1].Regex, in[1].Description, in[3].Type}
			}, []any{2, `^v\d`, "d", "array"},
		},
	}, []refuses{
		{"an input without a default", of("{a: {type: string}}"), "`inputs:a` has no default"},
		{"an input that says nothing", of("{a: null}"), "`inputs:a` has no default"},
		{"a default of another type", of("{a: {type: number, default: b}}"), "`inputs:a:default` must be of the type number, not a string"},
		{"a default that is not an option", of("{a: {default: c, options: [a, b]}}"), "`inputs:a:default` is \"c\", and that is not among the options"},
		{"a default that does not match", of("{a: {default: c, regex: '^v'}}"), "`inputs:a:default` does not match the regex ^v"},
		{"a broken pattern", of("{a: {default: c, regex: '('}}"), "`inputs:a:regex`: "},
		{"options of booleans", of("{a: {type: boolean, default: true, options: [true]}}"), "`inputs:a:options` is for strings and numbers"},
		{"another type", of("{a: {type: text, default: b}}"), "`inputs:a:type` cannot be \"text\""},
		{"a name with a dot", of("{a.b: {default: c}}"), "\"a.b\" cannot be the name of an input"},
		{"fifty-one", of("{" + manyInputs(51) + "}"), "a job can have at most 50 inputs, not 51"},
		{"a list", of("[a]"), "`inputs` must be a map, not a list"},
	})
}

func manyInputs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "i%d: {default: x}, ", i)
	}
	return b.String()
}

// TestInOneGo makes sure that all mistakes are told together, in the order of the text.
func TestInOneGo(t *testing.T) {
	_, problems := read(t, "stages: [a]\nb:\n  stage: c\n  script: []\n  retry: 9\na:\n  stage: a\n  script: x\n  timeout: x\n  needs: [c]\n")
	want := `ci.yml:3:10: there is no stage "c"; the stages are .pre, a, .post
ci.yml:4:11: ` + "`script`" + ` is empty
ci.yml:5:10: ` + "`retry`" + ` must be from 0 to 2, not 9
ci.yml:9:12: ` + "`timeout`" + `: "x" is not a unit of time
ci.yml:10:11: the needed job "c" does not exist`
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Error(diff)
	}
}

// TestManyProblems makes sure that only so many are told, and the others counted.
func TestManyProblems(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "j%d: {script: x, retry: 9, stage: nowhere}\n", i)
	}
	_, problems := read(t, b.String())
	if last := problems[len(problems)-1].Message; len(problems) > 1000 || !strings.HasSuffix(last, "more problems are not shown") {
		t.Error(len(problems), last)
	}
}
