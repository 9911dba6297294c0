package trace

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

func TestATraceKnowsItsJob(t *testing.T) {
	id := event.Identity{
		Project: "group/project", Ref: "main", Commit: "0123456789abcdef", Pipeline: ".gitlab-ci.yml", PipelineID: "42",
		Job: "test: [linux]", Group: "test", Stage: "test", Needs: []string{"build"},
	}
	variables := map[string]string{
		"CI_PROJECT_PATH": id.Project, "CI_COMMIT_REF_NAME": id.Ref, "CI_COMMIT_SHA": id.Commit, "CI_CONFIG_PATH": id.Pipeline,
		"CI_PIPELINE_ID": id.PipelineID, "CI_JOB_NAME": id.Job, "CI_JOB_STAGE": id.Stage,
	}
	for name, start := range map[string]event.RunStarted{
		"one that its host describes":               {ID: "r1", Identity: &id},
		"one that only has GitLab's variables":      {ID: "r1", Job: variables},
		"the host is believed before the variables": {ID: "r1", Identity: &id, Job: map[string]string{"CI_JOB_NAME": "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := read(t, record(t, func(s *script) {
				s.at(0, "", start)
				s.run("1", "hello", "hello\n", 0, 50)
			}))
			for format, want := range map[string][]string{
				"text":  {"job test: [linux] · project group/project · ref main\n", "pipeline .gitlab-ci.yml 42 · stage test · commit 0123456789abcdef\n"},
				"junit": {`<testsuites name="test: [linux] · group/project · main"`, `<testsuite name="test: [linux]"`, `<property name="pipeline_id" value="42"/>`},
				"html":  {"<title>test: [linux] · group/project · main · ", `"identity":{"project":"group/project"`},
			} {
				got := string(export(t, tr, format))
				for _, text := range want {
					if !strings.Contains(got, text) {
						t.Errorf("%s does not have %q", format, text)
					}
				}
			}
			if got := string(export(t, tr, "comparable")); strings.Contains(got, `"identity"`) {
				t.Error("two runs of one job cannot be compared byte for byte")
			}
		})
	}
	t.Run("a trace that knows no job is named by its run", func(t *testing.T) {
		tr := read(t, record(t, example))
		if got := tr.Title(); got != "run run-7f3a" {
			t.Errorf("its title is %q", got)
		}
		if got := string(export(t, tr, "junit")); strings.Contains(got, "<properties>") {
			t.Error("its report has properties without values")
		}
	})
	t.Run("secrets in names are hidden", func(t *testing.T) {
		secret := event.Identity{Ref: "s3cret", Pipeline: "for s3cret", Needs: []string{"s3cret"}}
		got := secret.Hide(func(s string) string { return strings.ReplaceAll(s, "s3cret", "[MASKED]") })
		if got.Ref != "[MASKED]" || got.Pipeline != "for [MASKED]" || got.Needs[0] != "[MASKED]" || secret.Needs[0] != "s3cret" {
			t.Errorf("it becomes %+v", got)
		}
	})
}
