package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// read reads a definition; ok is false when the text is wrong.
func read(t testing.TB, text string) (d *keyword.Definition, ok bool) {
	t.Helper()
	c, err := config.Resolve(t.Context(), ".gitlab-ci.yml", []byte(text), config.Options{})
	if err != nil {
		return nil, false
	}
	d, wrong := keyword.Read(c)
	return d, len(wrong) == 0
}

func mustRead(t testing.TB, text string) *keyword.Definition {
	t.Helper()
	d, ok := read(t, text)
	if !ok {
		c, err := config.Resolve(t.Context(), ".gitlab-ci.yml", []byte(text), config.Options{})
		if err == nil {
			_, err = keyword.Read(c)
		}
		t.Fatalf("the definition is wrong: %v", err)
	}
	return d
}

const sample = `
stages: [build, test, deploy]
workflow:
  name: Pipeline of $CI_COMMIT_BRANCH
  rules:
    - if: $CI_COMMIT_BRANCH
      variables: {MODE: branch}
variables:
  GO: "1.26"
.go:
  image: golang:$GO
  rules:
    - if: $CI_COMMIT_BRANCH == "main"
build:
  extends: .go
  stage: build
  script: go build
  artifacts: {paths: [bin]}
  parallel:
    matrix:
      - OS: [linux, darwin]
        ARCH: [amd64, arm64]
test:
  extends: .go
  stage: test
  script: go test
  parallel:
    matrix:
      - OS: [linux]
        ARCH: [amd64, arm64]
  needs:
    - job: build
      parallel:
        matrix:
          - OS: $[[ matrix.OS ]]
            ARCH: $[[ matrix.ARCH ]]
lint:
  stage: test
  script: go vet
  needs: []
  allow_failure: true
nightly:
  stage: test
  script: ./fuzz
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule"
deploy:
  stage: deploy
  script: ./deploy
  rules:
    - if: $CI_COMMIT_BRANCH == "main"
      when: manual
report:
  stage: .post
  script: ./report
  when: always
`

func TestAWholePipeline(t *testing.T) {
	p := build(t, mustRead(t, sample), onMain())
	var got []string
	for _, j := range p.Jobs {
		needs := "stages"
		if j.Needs != nil {
			needs = strings.Join(edges(j), ", ")
		}
		got = append(got, fmt.Sprintf("%s %s: %s; after [%s]; %s", j.Stage, j.Name, j.When, needs, j.Reason()))
	}
	for _, j := range p.Excluded {
		got = append(got, fmt.Sprintf("%s %s: %s; %s", j.Stage, j.Name, j.When, j.Reason()))
	}
	want := []string{
		`build build: [linux, amd64]: on_success; after [stages]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`build build: [linux, arm64]: on_success; after [stages]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`build build: [darwin, amd64]: on_success; after [stages]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`build build: [darwin, arm64]: on_success; after [stages]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`test test: [linux, amd64]: on_success; after [build: [linux, amd64]]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`test test: [linux, arm64]: on_success; after [build: [linux, arm64]]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`test lint: on_success; after []; there are no rules`,
		`deploy deploy: manual; after [stages]; rule 1: $CI_COMMIT_BRANCH is "main"`,
		`.post report: always; after [stages]; there are no rules`,
		`test nightly: never; no rule applies: rule 1: $CI_PIPELINE_SOURCE is "push", not "schedule"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.Name != "Pipeline of main" || len(p.Warnings) > 0 {
		t.Errorf("the pipeline is called %q, and warns of %v", p.Name, texts(p.Warnings))
	}
	if j := mustJob(t, p, "deploy"); j.AllowFailure.Always || len(j.Artifacts) != 4 {
		t.Errorf("deploy blocks and gets all artifacts: %+v", j)
	}
}

func TestProblemsHavePlaces(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a need of a job that rules leave out": {"build:\n  script: x\n  rules: [{if: $NOPE}]\ntest:\n  script: x\n  needs:\n    - build\n",
			".gitlab-ci.yml:7:7: 'test' job needs 'build' job, but 'build' is not in this pipeline: no rule applies: rule 1: $NOPE is not set"},
		"a need that comes by extends": {"build:\n  script: x\n  rules: [{if: $NOPE}]\n.base:\n  needs: [build]\ntest:\n  script: x\n  extends: .base\n",
			".gitlab-ci.yml:5:11: 'test' job needs 'build' job, but 'build' is not in this pipeline: no rule applies: rule 1: $NOPE is not set (by `extends: .base` at .gitlab-ci.yml:8)"},
		"needs of rules in a circle": {"a:\n  script: x\n  needs: [b]\nb:\n  script: x\n  rules:\n    - if: $CI_COMMIT_BRANCH\n      needs: [a]\n",
			`.gitlab-ci.yml:3:3: jobs need each other in a circle: "a" → "b" → "a"`},
		"a rule that cannot be decided": {"a:\n  script: x\n  rules:\n    - if: $NOPE\n    - changes: {paths: [a], compare_to: nowhere}\n",
			".gitlab-ci.yml:5:7: the job \"a\": rule 2: changes: there is no ref"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := onMain()
			facts.Changed = func(when.Changes) (when.Answer, error) { return when.Answer{}, errors.New("there is no ref") }
			_, err := pipeline.New(mustRead(t, test.text), facts)
			if list := diag.Of(err); len(list) != 1 || list[0].Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// FuzzNew makes pipelines of any definitions, and holds them against what must be true of all.
func FuzzNew(f *testing.F) {
	f.Add(sample)
	f.Add("a:\n  script: x\n  parallel: 3\nb:\n  script: x\n  needs: [a]\n  when: manual\nc:\n  script: x\n  needs: [{job: b, optional: true}]\n  dependencies: [a]\n")
	f.Add("a:\n  script: x\n  stage: .pre\nb:\n  script: x\n  when: on_failure\n  only: [main]\nc:\n  script: x\n  rules:\n    - if: $CI_COMMIT_BRANCH =~ /^m/\n      needs: [a]\n      allow_failure: true\n")
	f.Add("default: {retry: 1}\nvariables: {A: $B, B: $A}\na:\n  script: x\n  variables: {C: $A}\n  rules: [{changes: [$A]}]\n  inherit: {variables: [A]}\n")
	f.Add("a:\n  script: x\n  parallel: {matrix: [{A: [1, 1], B: [x]}, {B: [y]}]}\nb:\n  trigger: {include: c.yml}\n  needs: [{job: a, parallel: {matrix: [{A: 1, B: x}]}}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := read(t, text)
		if !ok {
			return
		}
		p, err := pipeline.New(d, onMain())
		if err != nil {
			if len(diag.Of(err)) == 0 {
				t.Fatalf("an error that is not a diagnostic: %v", err)
			}
			return
		}
		checkPipeline(t, p)
	})
}

func checkPipeline(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	if (p.Reason() == "") != (len(p.Jobs) > 0) {
		t.Errorf("%d jobs, and the reason %q", len(p.Jobs), p.Reason())
	}
	place := map[*pipeline.Job]int{}
	seen := map[string]bool{}
	for i, j := range p.Jobs {
		if seen[j.Name] || p.Stages[j.StageIndex] != j.Stage || i > 0 && j.StageIndex < p.Jobs[i-1].StageIndex {
			t.Errorf("the name or stage of %q is not right", j.Name)
		}
		seen[j.Name], place[j] = true, i
	}
	for _, j := range p.Jobs {
		for _, other := range slices.Concat(p.Predecessors(j), j.Artifacts) {
			if _, ok := place[other]; !ok || other == j {
				t.Errorf("%q waits for %q", j.Name, other.Name)
			}
		}
		if jobs, err := p.Select([]string{j.Name}, true); err != nil || !slices.Contains(jobs, j) {
			t.Errorf("%q cannot be selected: %v", j.Name, err)
		}
		_, _ = j.Variables()
	}
	checkEnds(t, p)
}

// checkEnds runs all jobs, each one successfully, and expects that it is decided about every one.
func checkEnds(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	state := map[*pipeline.Job]pipeline.State{}
	for ended := 0; ended < len(p.Jobs); {
		before := ended
		for _, j := range p.Jobs {
			if state[j] != pipeline.Waiting {
				continue
			}
			switch d, _ := p.Decide(j, func(j *pipeline.Job) pipeline.State { return state[j] }); d {
			case pipeline.Run:
				state[j] = pipeline.Success
				ended++
			case pipeline.Skip:
				state[j] = pipeline.Skipped
				ended++
			}
		}
		if ended == before {
			t.Fatalf("the pipeline stands still: %v", state)
		}
	}
}
