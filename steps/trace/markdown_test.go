package trace

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldmarkhtml "github.com/yuin/goldmark/renderer/html"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// render shows Markdown as GitHub does before it sanitizes: with tables and with HTML.
func render(t *testing.T, markdown []byte) string {
	t.Helper()
	var page bytes.Buffer
	reader := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(goldmarkhtml.WithUnsafe()))
	if err := reader.Convert(markdown, &page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestMarkdown(t *testing.T) {
	t.Run("the failing line is shown with its source, its hint and the end of the log", func(t *testing.T) {
		page := render(t, export(t, read(t, record(t, func(s *script) {
			s.at(0, "", started())
			s.at(0, "1", event.StepStarted{Name: "test", Kind: event.KindExec})
			for i := range 40 {
				s.print("1", event.Stdout, fmt.Sprintf("line %d\n", i))
			}
			code := 7
			s.at(0, "1", event.StepFinished{Status: event.Failure, ExitCode: &code, Error: &event.Error{Kind: event.ErrorStep, Step: "1", StepName: "test",
				Message: "exit status 7", Hint: "read it", Diagnostics: diag.List{{Span: diag.Span{File: ".gitlab-ci.yml", Line: 12, Column: 7, Length: 4},
					Message: "exit status 7", Source: "    - make"}}}})
		})), "markdown"))
		for _, want := range []string{"--&gt; .gitlab-ci.yml:12:7\n", " 12 |     - make\n", "|       ^^^^", "<code>read it</code>", "line 20\nline 21\n", "line 39\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page has no %q:\n%s", want, page)
			}
		}
		if strings.Contains(page, "line 19\n") {
			t.Error("the whole log is shown")
		}
	})
	t.Run("no text of a run can leave the place it stands in", func(t *testing.T) {
		evil := "a|b`c``` </code></details><script>x</script> <!-- [l](http://e.org) ![i](//e.org) @all #1 !2 ~3 **b** www.e.org x@e.org &lt; \\| $x$ :tada: \u202e"
		bad := read(t, record(t, func(s *script) {
			run := started()
			run.ID, run.Job = evil, map[string]string{"CI_JOB_NAME": evil + "\n# title", "CI_COMMIT_REF_NAME": evil, "CI_COMMIT_SHA": "0123456789"}
			s.at(0, "", run)
			s.at(0, "1", event.StepStarted{Name: evil, Ref: evil, Kind: event.KindExec})
			s.print("1", event.Stdout, "```\n~~~~\n"+evil+"\n</details>\n````\n")
			s.at(0, "1", event.Annotation{Level: event.AnnotationError, Title: evil, Message: evil, File: evil, Line: 1})
			s.at(0, "1", event.Summary{Markdown: "```\nopen <details>\n"})
			s.at(0, "1", event.StepFinished{Status: event.Failure, Error: &event.Error{Kind: event.ErrorStep, Message: evil, Hint: evil,
				Diagnostics: diag.List{{Span: diag.Span{File: evil, Line: 1, Column: 1, Length: 1}, Message: evil, Source: evil}}}})
			s.at(0, "2", event.StepSkipped{Name: evil, Reason: evil})
			s.at(0, "", event.Warning{Message: evil})
			s.at(0, "", event.RunFinished{Status: event.Failure, Outputs: map[string]value.Value{evil: text(evil)}})
		}))
		source := export(t, bad, "markdown")
		page := render(t, source)
		outside := regexp.MustCompile(`(?s)<code[ >].*?</code>`).ReplaceAllString(page, "")
		for _, never := range []string{"<script", "<!--", "<a ", "<img", "<strong", "<em>", "@all", "#1", "www.", "title", "$x"} {
			if strings.Contains(outside, never) {
				t.Errorf("%q is outside of code in\n%s", never, outside)
			}
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "<a ") || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") {
			t.Errorf("something of it is HTML:\n%s", page)
		}
		if n := strings.Count(page, "<details"); n != strings.Count(page, "</details>") || n != 4 {
			t.Errorf("the page has %d parts that fold, of which %d end", n, strings.Count(page, "</details>"))
		}
		for cells, want := range map[string]int{"<table>": 3, "<tr>": 3 + 4, "<td": 2*4 + 2 + 3} {
			if n := strings.Count(page, cells); n != want {
				t.Errorf("the page has %d of %s, want %d:\n%s", n, cells, want, page)
			}
		}
	})
	t.Run("a summary that leaves a fence open does not swallow what follows", func(t *testing.T) {
		page := render(t, export(t, read(t, record(t, func(s *script) {
			s.at(0, "", started())
			for _, id := range []string{"1", "2"} {
				s.at(0, id, event.StepStarted{Name: "step" + id})
				s.at(0, id, event.Summary{Markdown: "**bold" + id + "**\n\n```\nopen"})
				s.at(0, id, event.StepFinished{Status: event.Success})
			}
		})), "markdown"))
		if !strings.Contains(page, "<h4><code>step2</code></h4>") || !strings.Contains(page, "<strong>bold2</strong>") {
			t.Errorf("got\n%s", page)
		}
	})
	t.Run("what is sensitive has no value", func(t *testing.T) {
		page := render(t, export(t, read(t, record(t, func(s *script) {
			s.at(0, "", started())
			s.at(0, "", event.RunFinished{Status: event.Success, Outputs: map[string]value.Value{"key": event.Redacted("hmac:9"), "url": text("https://[MASKED]@host")}})
		})), "markdown"))
		if strings.Contains(page, "hmac") || !strings.Contains(page, "[sensitive]") || !strings.Contains(page, "[MASKED]@host") {
			t.Errorf("got\n%s", page)
		}
	})
	t.Run("the largest run still fits GitHub's step summary and GitLab's comment", func(t *testing.T) {
		long := strings.Repeat("#`", 5000)
		tr := read(t, record(t, func(s *script) {
			s.at(0, "", started())
			outputs := map[string]value.Value{}
			for i := range 400 {
				id := fmt.Sprint(i + 1)
				s.at(0, id, event.StepStarted{Name: long + id, Ref: long})
				s.print(id, event.Stdout, strings.Repeat(long+"\n", 5))
				s.at(0, id, event.Annotation{Level: event.AnnotationError, Message: long, File: long})
				s.at(0, id, event.Summary{Markdown: strings.Repeat("text\n", 2000)})
				s.at(0, id, event.StepFinished{Status: event.Failure, Error: &event.Error{Message: long, Hint: long}})
				s.at(0, "", event.Warning{Message: long})
				outputs[long+id] = text(long)
			}
			s.at(0, "", event.RunFinished{Status: event.Failure, Outputs: outputs})
		}))
		source := export(t, tr, "markdown")
		if len(source) > maxMarkdownBytes {
			t.Errorf("it has %d bytes", len(source))
		}
		for _, want := range []string{"390 more failures", "200 more steps", "350 more annotations", "350 more outputs", "380 more warnings", "more lines not shown"} {
			if !bytes.Contains(source, []byte(want)) {
				t.Errorf("it does not say %q", want)
			}
		}
		if err := Export(io.Discard, "markdown", killedRun(t)); err != nil {
			t.Error(err)
		}
	})
}
