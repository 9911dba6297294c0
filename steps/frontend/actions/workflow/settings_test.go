package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
)

// settings computes the settings of the first leg of a job that has the keys.
func settings(t *testing.T, keys string, c workflow.Contexts) (*workflow.Settings, error) {
	t.Helper()
	text := "on: push\njobs:\n  a:\n    steps: [{run: x}]\n" + indent(keys+"\n", "    ")
	if !strings.Contains(keys, "runs-on:") {
		text = withJob(keys + "\n")
	}
	j := parse(t, text).Jobs[0]
	return j.Settings(legs(t, j, c).List[0], c)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	c := contexts(t, `{"github": {"ref": "refs/heads/x", "job": "a"}, "vars": {"on": "[\"self-hosted\", \"linux\"]", "yes": "true", "n": "7", "none": ""},
		"inputs": {"flag": true, "minutes": 2.5}, "secrets": {"P": "hush"}}`)
	for name, s := range map[string]struct {
		keys string
		get  func(*workflow.Settings) any
		want any
	}{
		"a label":               {"runs-on: ubuntu-latest", func(s *workflow.Settings) any { return s.RunsOn }, workflow.RunsOn{Labels: []string{"ubuntu-latest"}}},
		"labels":                {"runs-on: [self-hosted, '${{ github.job }}']", func(s *workflow.Settings) any { return s.RunsOn }, workflow.RunsOn{Labels: []string{"self-hosted", "a"}}},
		"labels of JSON":        {"runs-on: '${{ fromJSON(vars.on) }}'", func(s *workflow.Settings) any { return s.RunsOn }, workflow.RunsOn{Labels: []string{"self-hosted", "linux"}}},
		"a group":               {"runs-on: {group: big, labels: x}", func(s *workflow.Settings) any { return s.RunsOn }, workflow.RunsOn{Group: "big", Labels: []string{"x"}}},
		"a value of the matrix": {"runs-on: '${{ matrix.os }}'\nstrategy: {matrix: {os: [w]}}", func(s *workflow.Settings) any { return s.RunsOn }, workflow.RunsOn{Labels: []string{"w"}}},
		"no container":          {"", func(s *workflow.Settings) any { return s.Container == nil }, true},
		"an image":              {"container: node:20", func(s *workflow.Settings) any { return s.Container.Image }, "node:20"},
		"an image of docker":    {"container: docker://node:20", func(s *workflow.Settings) any { return s.Container.Image }, "node:20"},
		"an empty image":        {"container: '${{ vars.none }}'", func(s *workflow.Settings) any { return s.Container == nil }, true},
		"ports and volumes": {"container: {image: x, ports: [80, '${{ vars.n }}:1'], volumes: ['a:/b'], options: --cpus 1}",
			func(s *workflow.Settings) any {
				return []any{s.Container.Ports, s.Container.Volumes, s.Container.Options}
			}, []any{[]string{"80", "7:1"}, []string{"a:/b"}, "--cpus 1"}},
		"variables of a container": {"container: {image: x, env: {A: 1, B: '${{ secrets.P }}'}}", func(s *workflow.Settings) any { return s.Container.Env["A"].Str() + s.Container.Env["B"].Str() }, "1hush"},
		"credentials": {"container: {image: x, credentials: {username: u, password: '${{ secrets.P }}'}}",
			func(s *workflow.Settings) any {
				return []any{s.Container.Username, s.Container.Password.Str(), s.Container.Password.Marked()}
			}, []any{"u", "hush", true}},
		"services": {"services: {db: {image: pg, command: x}, none: {image: '${{ vars.none }}'}, r: redis}",
			func(s *workflow.Settings) any {
				return []any{len(s.Services), s.Services[0].ID, s.Services[0].Command, s.Services[1].ID, s.Services[1].Image}
			}, []any{2, "db", "x", "r", "redis"}},
		"a time":                      {"timeout-minutes: 10", func(s *workflow.Settings) any { return s.TimeoutMinutes }, 10.0},
		"a time that is computed":     {"timeout-minutes: '${{ inputs.minutes }}'", func(s *workflow.Settings) any { return s.TimeoutMinutes }, 2.5},
		"a time of text":              {"timeout-minutes: '${{ fromJSON(vars.n) }}'", func(s *workflow.Settings) any { return s.TimeoutMinutes }, 7.0},
		"no time":                     {"", func(s *workflow.Settings) any { return s.TimeoutMinutes }, 360.0},
		"continue-on-error":           {"continue-on-error: true", func(s *workflow.Settings) any { return s.ContinueOnError }, true},
		"continue-on-error, computed": {"continue-on-error: '${{ inputs.flag }}'", func(s *workflow.Settings) any { return s.ContinueOnError }, true},
		"a concurrency group":         {"concurrency: g-${{ github.ref }}", func(s *workflow.Settings) any { return *s.Concurrency }, workflow.Concurrency{Group: "g-refs/heads/x"}},
		"a group that cancels":        {"concurrency: {group: g, cancel-in-progress: '${{ inputs.flag }}'}", func(s *workflow.Settings) any { return *s.Concurrency }, workflow.Concurrency{Group: "g", Cancel: true}},
		"a group with a queue":        {"concurrency: {group: g, queue: max}", func(s *workflow.Settings) any { return *s.Concurrency }, workflow.Concurrency{Group: "g", Queue: true}},
		"no group":                    {"concurrency: '${{ vars.none }}'", func(s *workflow.Settings) any { return s.Concurrency == nil }, true},
		"an environment":              {"environment: prod-${{ github.job }}", func(s *workflow.Settings) any { return *s.Environment }, workflow.Environment{Name: "prod-a", Deployment: true}},
		"an environment's address":    {"environment: {name: p, url: 'https://${{ steps.x.outputs.y }}', deployment: false}", func(s *workflow.Settings) any { return *s.Environment }, workflow.Environment{Name: "p", HasURL: true}},
		"no environment":              {"environment: '${{ vars.none }}'", func(s *workflow.Settings) any { return s.Environment == nil }, true},
		"caches":                      {"cache-mode: read", func(s *workflow.Settings) any { return s.CacheMode }, workflow.CacheRead},
		"permissions":                 {"permissions: {issues: write}", func(s *workflow.Settings) any { return s.Permissions.String() }, "issues: write"},
		"no permissions":              {"permissions: {}", func(s *workflow.Settings) any { return s.Permissions.String() }, "none"},
		"permissions that none says":  {"", func(s *workflow.Settings) any { return s.Permissions.String() }, "contents: read, packages: read"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := settings(t, s.keys, c)
			if err != nil {
				t.Fatal(diag.Of(err).Render())
			}
			if diff := cmp.Diff(s.want, s.get(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, s := range map[string]struct{ keys, want string }{
		"a machine of nothing":      {"runs-on: '${{ vars.none }}'", "ci.yml:5:14: the job runs on nothing"},
		"a time that is not a time": {"timeout-minutes: '${{ vars.yes }}'", `"timeout-minutes" must be a number above 0, not "true"`},
		"a truth that is none":      {"continue-on-error: '${{ vars.n }}'", `"continue-on-error" must be true or false, not "7"`},
		"half of credentials":       {"container: {image: x, credentials: {username: u, password: '${{ secrets.X }}'}}", "one of them is empty"},
		"text that is not JSON":     {"runs-on: '${{ fromJSON(vars.none) }}'", "ci.yml:5:"},
	} {
		if _, err := settings(t, s.keys, c); err == nil || !strings.Contains(err.Error(), s.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", name, err, s.want)
		}
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	of := func(text string) *workflow.Permissions {
		return parse(t, "on: push\npermissions: "+text+"\n"+jobs).Permissions
	}
	for _, c := range []struct {
		permissions, scope string
		level              workflow.Level
		want               bool
	}{
		{"read-all", "contents", workflow.Read, true},
		{"read-all", "contents", workflow.Write, false},
		{"read-all", "id-token", workflow.Write, false},
		{"write-all", "id-token", workflow.Write, true},
		{"write-all", "models", workflow.Read, true},
		{"write-all", "models", workflow.Write, false},
		{"{}", "contents", workflow.Read, false},
		{"{}", "metadata", workflow.Read, true},
		{"{contents: write}", "contents", workflow.Read, true},
		{"{contents: write}", "issues", workflow.Read, false},
		{"{contents: none}", "contents", workflow.Read, false},
		{"{contents: read}", "no-such", workflow.Read, false},
	} {
		if got := of(c.permissions).Allows(c.scope, c.level); got != c.want {
			t.Errorf("%s: %s %s is %t", c.permissions, c.scope, c.level, got)
		}
	}
	if got := of("write-all").Within(of("{contents: read, id-token: write}")).String(); got != "contents: read, id-token: write" {
		t.Errorf("a called workflow may do %s", got)
	}
	if got := of("{contents: read}").Within(of("write-all")).String(); got != "contents: read" {
		t.Errorf("a called workflow may do %s", got)
	}
	if diff := cmp.Diff(map[string]string{"contents": "read"}, of("{contents: read, issues: none}").Map()); diff != "" {
		t.Error(diff)
	}
	t.Run("the job's come before the workflow's", func(t *testing.T) {
		w := parse(t, "on: push\npermissions: write-all\njobs:\n  a: {runs-on: x, permissions: {checks: read}, steps: [{run: x}]}\n  b: {runs-on: x, steps: [{run: x}]}\n")
		for i, want := range []workflow.Level{workflow.None, workflow.Write} {
			s, err := w.Jobs[i].Settings(legs(t, w.Jobs[i], nil).List[0], nil)
			if err != nil || s.Permissions.Level("contents") != want {
				t.Errorf("job %d: %v, %v", i, s.Permissions, err)
			}
		}
	})
}

func TestTheWorkflowsOwnKeys(t *testing.T) {
	t.Parallel()
	w := parse(t, "name: 1.10\ndescription: d\nrun-name: ' by ${{ github.actor }} '\non: push\nconcurrency: {group: 'g-${{ github.ref }}', cancel-in-progress: true}\ncache-mode: none\n"+jobs)
	c := contexts(t, `{"github": {"actor": "me", "ref": "r"}}`)
	title, err := w.RunTitle(c)
	group, err2 := w.Concurrency(c)
	if w.Name != "1.10" || w.Description != "d" || title != "by me" || err != nil || err2 != nil || *group != (workflow.Concurrency{Group: "g-r", Cancel: true}) {
		t.Error(w.Name, w.Description, title, group, err, err2)
	}
	if mode := w.Jobs[0].CacheMode; mode != workflow.CacheNone {
		t.Error(mode)
	}
	w = parse(t, "on: push\n"+jobs)
	if title, err := w.RunTitle(nil); title != "" || err != nil {
		t.Error(title, err)
	}
	if group, err := w.Concurrency(nil); group != nil || err != nil {
		t.Error(group, err)
	}
}
