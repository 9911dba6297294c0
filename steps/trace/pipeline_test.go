package trace

import (
	"bytes"
	"encoding/json"
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

func TestSeveralTracesAreOneDocument(t *testing.T) {
	var traces []*Trace
	for i, name := range []string{"build", "test"} {
		id := event.Identity{Project: "group/project", Pipeline: "ci.yml", Job: name}
		traces = append(traces, read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: name, Identity: &id})
			s.run("1", "step of "+name, "log\n", i, 50)
			s.at(0, "", event.RunFinished{Status: event.Success})
		})))
	}
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			var out bytes.Buffer
			err := Export(&out, f.Name, traces...)
			if !f.Several() {
				if err == nil {
					t.Error("it is written")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"step of build", "step of test"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing", want)
				}
			}
			switch f.Name {
			case "junit":
				if !strings.Contains(out.String(), `<testsuites name="ci.yml · group/project" tests="2" failures="1"`) || strings.Count(out.String(), "<?xml") != 1 {
					t.Error(out.String())
				}
			case "otlp":
				if !json.Valid(out.Bytes()) {
					t.Error(out.String())
				}
			}
		})
	}
}
