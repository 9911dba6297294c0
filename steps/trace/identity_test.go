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
				"text":  {"job test: [linux] · pipeline .gitlab-ci.yml · project group/project · ref main\n", "pipeline ID 42 · stage test · commit 0123456789abcdef\n"},
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
	t.Run("every form tells a job that may fail, and the image that it did not run in", func(t *testing.T) {
		for allows, id := range map[string]event.Identity{
			"allowed to fail": {Job: "lint", AllowFailure: true}, "allowed to fail with this code": {Job: "lint", AllowFailureExitCodes: []int{2, 3}},
			"": {Job: "lint", AllowFailureExitCodes: []int{2}},
		} {
			tr := read(t, record(t, func(s *script) {
				s.at(0, "", event.RunStarted{ID: "r1", Identity: &id, Environment: &event.Environment{Level: "none", IgnoredImage: "alpine:3"}})
				s.run("1", "lint", "bad\n", 3, 50)
				code := 3
				s.at(0, "", event.RunFinished{Status: event.Failure, ExitCode: &code})
			}))
			if tr.Allowed() != (allows != "") {
				t.Fatalf("%q: it is allowed: %v", allows, tr.Allowed())
			}
			for format, want := range map[string][2]string{
				"text":     {"failure (exit 3), allowed to fail in ", "  the job ran without its image alpine:3\n"},
				"markdown": {": failure, allowed to fail (exit 3) in ", "without its image <code>alpine&#58;3</code>"},
				"junit":    {`<property name="allowed_to_fail" value="true"/>`, `<property name="ignored_image" value="alpine:3"/>`},
				"html":     {"<title>lint · allowed to fail</title>", `"ignored_image":"alpine:3"`},
			} {
				got := string(export(t, tr, format))
				if strings.Contains(got, want[0]) != (allows != "") || !strings.Contains(got, want[1]) {
					t.Errorf("%q: %s is\n%.1000s", allows, format, got)
				}
			}
		}
	})
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
