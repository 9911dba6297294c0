package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/cmd/internal/commandtest"
	"github.com/rungci/rung/cmd/step-runner/command"
)

func TestHelpFitsEightyColumns(t *testing.T) {
	t.Parallel()
	commandtest.Help(t, allCommands())
}

func TestHelpListsCommandsInGroupsAndLocalFirst(t *testing.T) {
	t.Parallel()
	root := rootCommand(&command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }}, nil)
	var groups []string
	for _, g := range root.Groups() {
		groups = append(groups, g.Title)
	}
	if got := strings.Join(groups, " "); got != "Run: Inspect: Trust: Serve:" {
		t.Errorf("the groups are %s", got)
	}
	if first := root.Commands()[0].Name(); first != "local" {
		t.Errorf("help begins with %s, not with local", first)
	}
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && cmd.GroupID == "" {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
}

// TestACommandIsBuiltByItsName holds the names that choose a group against the commands that the group builds.
func TestACommandIsBuiltByItsName(t *testing.T) {
	t.Parallel()
	p := &command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }}
	for _, g := range groups(p) {
		var built []string
		for _, cmd := range g.build() {
			built = append(append(built, cmd.Name()), cmd.Aliases...)
			if found, _, err := rootCommand(p, []string{cmd.Name()}).Find([]string{cmd.Name()}); err != nil || found.Name() != cmd.Name() {
				t.Errorf("%s is not found: %v", cmd.Name(), err)
			}
		}
		if !slices.Equal(built, g.names) {
			t.Errorf("group %s has the names %q and the commands %q", g.title, g.names, built)
		}
	}
}

// TestCompletionOffersValues completes values as a shell does.
func TestCompletionOffersValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		".gitlab-ci.yml":           "stages: [a, b]\nmake:\n  stage: a\n  script: [make]\ntest it:\n  stage: b\n  script: [make]\nship:\n  stage: b\n  when: manual\n  script: [make]\n",
		".github/workflows/ci.yml": "on: push\njobs:\n  docs:\n    runs-on: x\n    strategy: {matrix: {os: [a, b]}}\n    steps: [{run: true}]\n",
		"steps.yml":                "- {name: first, script: echo}\n- {name: second, script: echo}\n",
	} {
		commandtest.WritePage(t, dir+"/"+name, text)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"local --project-dir DIR --job-name ", "make|test it|ship"},
		{"local --project-dir DIR --manual ", "ship"},
		{"local --project-dir DIR ma", "make"},
		{"local --project-dir DIR DIR/.github/workflows/ci.yml --matrix o", "os:a|os:b"},
		{"run DIR/steps.yml --pause-before ", "first|second"},
		{"ci DIR/steps.yml --pause-before s", "second"},
		{"local --isolation ", "auto|none|container"},
		{"local --event mer", "merge_request"},
		{"local --progress ", "auto|tty|plain|quiet|json"},
		{"local --format ", "gitlab-ci|github-actions"},
		{"compile DIR/.github/workflows/ci.yml --job-name ", "docs"},
		{"lint --format ", "text|json|sarif|codequality"},
		{"trace export --format h", "html"},
		{"explain rules:cha", "rules:changes"},
		{"describe builtin://cache/", "builtin://cache/restore|builtin://cache/save"},
		{"run builtin://doc", "builtin://docker/login|builtin://docker/run"},
		{"replay --isolation ", "auto|none"},
	} {
		words := strings.Split(strings.ReplaceAll(c.args, "DIR", dir), " ")
		var out bytes.Buffer
		root := rootCommand(&command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }}, nil)
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(append([]string{"__complete"}, words...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		offered := map[string]bool{}
		for line := range strings.Lines(out.String()) {
			value, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
			offered[value] = true
		}
		for want := range strings.SplitSeq(c.want, "|") {
			if !offered[want] {
				t.Errorf("%s: %q is not offered: %s", c.args, want, out.String())
			}
		}
	}
}
