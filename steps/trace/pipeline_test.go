package trace

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

func TestThePageOfAPipeline(t *testing.T) {
	evil := `</pre></title><script>alert(1)</script>`
	job := func(id event.Identity, exit int) *Trace {
		return read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: id.Job, Identity: &id})
			s.run("1", "say "+id.Job, "log of "+id.Job+" "+evil+"\n", exit, 50)
			status := event.Success
			if exit != 0 {
				status = event.Failure
			}
			s.at(0, "", event.RunFinished{Status: status, ExitCode: &exit})
		}))
	}
	export := func(traces ...*Trace) string {
		var out bytes.Buffer
		if err := WritePipeline(&out, traces); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	page := export(
		job(event.Identity{Project: "group/project", Pipeline: "ci.yml", Job: "deploy " + evil, Needs: []string{"test", "build"}, Stage: "deploy", StageIndex: 2}, 0),
		job(event.Identity{Project: "group/project", Pipeline: "ci.yml", Job: "test: [a]", Group: "test", Needs: []string{"build"}, Stage: "test", StageIndex: 1}, 3),
		job(event.Identity{Project: "group/project", Pipeline: "ci.yml", Job: "test: [b]", Group: "test", Needs: []string{"build"}, Stage: "test", StageIndex: 1}, 0),
		job(event.Identity{Project: "group/project", Pipeline: "ci.yml", Job: "build", Stage: "build"}, 0),
	)
	t.Run("it has every job and its log, in the order of the stages", func(t *testing.T) {
		var found []string
		for _, m := range regexp.MustCompile(`<summary><h2>(\w+)`).FindAllStringSubmatch(page, -1) {
			found = append(found, m[1])
		}
		if got := strings.Join(found, " "); got != "build test test deploy" {
			t.Errorf("the jobs are %s", got)
		}
		for _, want := range []string{"<title>ci.yml · group/project", "log of build", "log of test: [a]", "log of deploy"} {
			if !strings.Contains(page, want) {
				t.Errorf("it does not have %q", want)
			}
		}
	})
	t.Run("a job that was allowed to fail does not fail the pipeline", func(t *testing.T) {
		page := export(job(event.Identity{Pipeline: "ci.yml", Job: "lint", AllowFailure: true}, 3), job(event.Identity{Pipeline: "ci.yml", Job: "build"}, 0))
		for _, want := range []string{"<title>ci.yml · success</title>", `<span class="badge s-allowed"><span aria-hidden="true">✗</span>allowed to fail</span>`} {
			if !strings.Contains(page, want) {
				t.Errorf("it does not have %q", want)
			}
		}
		failed := export(job(event.Identity{Pipeline: "ci.yml", Job: "lint", AllowFailure: true}, 3), job(event.Identity{Pipeline: "ci.yml", Job: "build"}, 1))
		if !strings.Contains(failed, "<title>ci.yml · failure</title>") {
			t.Error("one that was not does not fail it")
		}
	})
	t.Run("needs are lines, those of a group to each of its jobs", func(t *testing.T) {
		if n := strings.Count(page, "<path d="); n != 5 {
			t.Errorf("the graph has %d lines", n)
		}
	})
	t.Run("no text of a job can leave the place it is in, and nothing is fetched", func(t *testing.T) {
		if strings.Count(page, "<script") != 1 || strings.Contains(page, evil) || strings.Contains(page, "http") && regexp.MustCompile(`(src|href)="http`).MatchString(page) {
			t.Error("it does")
		}
	})
	t.Run("both themes are those of a trace's page", func(t *testing.T) {
		if !strings.Contains(page, "@media (prefers-color-scheme: dark) { :root {\n  color-scheme: dark;") || strings.Contains(page, "data-theme") {
			t.Error("the style has no dark theme")
		}
	})
}
