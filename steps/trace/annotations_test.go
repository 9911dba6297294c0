package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
)

// annotated is the trace of a step that says something.
func annotated(t *testing.T, say func(*script)) *Trace {
	t.Helper()
	return read(t, record(t, func(s *script) {
		s.at(0, "", started())
		s.at(0, "1", event.StepStarted{Name: "lint", Kind: event.KindScript})
		say(s)
		s.at(0, "1", event.StepFinished{Status: event.Failure, Error: &event.Error{Message: "bad"}})
		s.at(0, "", event.RunFinished{Status: event.Failure})
	}))
}

func TestAnnotations(t *testing.T) {
	t.Run("are kept as they are, of all attempts", func(t *testing.T) {
		want := []event.Annotation{
			{Level: event.AnnotationError, Message: "a\nb", Title: "t", File: "x.go", Line: 1, EndLine: 2, Column: 3, EndColumn: 4, Code: "C"},
			{Level: event.AnnotationNotice, Message: "c"},
		}
		s := annotated(t, func(s *script) {
			s.at(0, "1", want[0])
			s.at(0, "1", event.StepRetrying{Attempt: 1, Max: 2})
			s.at(0, "1", want[1])
		}).Find("1")
		if diff := cmp.Diff(want, s.Annotations); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("are counted beyond the limit, and long ones are cut", func(t *testing.T) {
		tr := annotated(t, func(s *script) {
			for i := range MaxAnnotations + 5 {
				s.at(0, "1", event.Annotation{Level: event.AnnotationWarning, Message: fmt.Sprint(i, strings.Repeat("é", maxAnnotationText*(i%MaxAnnotations/(MaxAnnotations-1))))})
			}
		})
		s := tr.Find("1")
		if len(s.Annotations) != MaxAnnotations || s.AnnotationsLeftOut != 5 || tr.Annotations()[event.AnnotationWarning] != MaxAnnotations {
			t.Errorf("%d are kept, %d left out", len(s.Annotations), s.AnnotationsLeftOut)
		}
		if last := s.Annotations[MaxAnnotations-1].Message; len(last) > maxAnnotationText+4 || !strings.HasSuffix(last, "é…") {
			t.Errorf("the long one has %d bytes", len(last))
		}
		for verbose, want := range []string{"and 980 more annotations (-v shows them)", "and 5 more annotations that the trace does not keep"} {
			if got := string(textOf(t, tr, TextOptions{Verbose: verbose})); !strings.Contains(got, want) {
				t.Errorf("the text does not say %q", want)
			}
		}
	})
	t.Run("have an order in the comparable form that does not depend on how streams mix", func(t *testing.T) {
		a, b := event.Annotation{Level: event.AnnotationError, Message: "a"}, event.Annotation{Level: event.AnnotationWarning, Message: "b", File: "f"}
		one := annotated(t, func(s *script) { s.at(0, "1", a); s.at(0, "1", b) })
		two := annotated(t, func(s *script) { s.at(0, "1", b); s.at(0, "1", a) })
		if diff := cmp.Diff(string(export(t, one, "comparable")), string(export(t, two, "comparable"))); diff != "" {
			t.Error(diff)
		}
		if d, text := differenceOf(t, one, two); !d.Same {
			t.Error(text)
		}
	})
	t.Run("are compared without what varies in logs, when that is asked for", func(t *testing.T) {
		took := func(text string) *Trace {
			return annotated(t, func(s *script) {
				s.at(0, "1", event.Annotation{Message: "took " + text})
				s.at(0, "1", event.Summary{Markdown: "# Took\n" + text})
			})
		}
		a, b := took("1.5s"), took("2.5s")
		for normalize, want := range map[bool]bool{true: true, false: false} {
			if d, err := Diff(a, b, DiffOptions{Normalize: normalize}); err != nil || d.Same != want {
				t.Errorf("with normalize %v they are the same: %v, %v", normalize, d.Same, err)
			}
		}
	})
}

func TestOfSummaryAndSubjectsTheLastAttemptCounts(t *testing.T) {
	say := func(s *script, word string) {
		s.at(0, "1", event.Summary{Markdown: word})
		s.at(0, "1", event.Subjects{Subjects: []event.Subject{{Name: word, Digest: "sha256:1"}}})
	}
	s := annotated(t, func(s *script) {
		say(s, "one")
		s.at(0, "1", event.StepRetrying{Attempt: 1, Max: 2})
		say(s, "two")
	}).Find("1")
	if s.Summary != "two" || len(s.Subjects) != 1 || s.Subjects[0].Name != "two" {
		t.Errorf("the step has %q and %v", s.Summary, s.Subjects)
	}
}

func TestWhatIsPreparedStandsBeforeTheFirstStep(t *testing.T) {
	tr := read(t, record(t, func(s *script) {
		s.at(0, "", started())
		s.at(0, "0", event.StepStarted{Name: "pre", Title: "Pre", Kind: event.KindSteps})
		s.run("0.1", "pre_checkout", "", 0, 10)
		s.at(0, "0", event.StepFinished{Status: event.Success})
		s.run("1", "hello", "", 0, 10)
		s.at(0, "2", event.StepStarted{Name: "all", Kind: event.KindAwait})
		s.at(0, "2", event.StepFinished{Status: event.Success})
		s.run("5", "post_checkout", "", 0, 10)
		s.at(0, "", event.RunFinished{Status: event.Success, Counts: event.Counts{Success: 4}})
	}))
	var got []string
	tr.Walk(func(s *Step, depth int) { got = append(got, fmt.Sprint(depth, s.ID, s.Name)) })
	if diff := cmp.Diff([]string{"00pre", "10.1pre_checkout", "01hello", "02all", "05post_checkout"}, got); diff != "" {
		t.Error(diff)
	}
	if got := string(textOf(t, tr, TextOptions{})); !strings.HasPrefix(strings.SplitN(got, "\n", 5)[3], "✓ pre · Pre") {
		t.Errorf("it is shown as\n%s", got)
	}
}

func TestSummariesOnThePage(t *testing.T) {
	page := func(markdown string) string {
		return string(export(t, annotated(t, func(s *script) { s.at(0, "1", event.Summary{Markdown: markdown}) }), "html"))
	}
	t.Run("are rendered, and leave their place in no way", func(t *testing.T) {
		got := page("# Hi\n</template><script>alert(1)</script>\n\n<details><img src=x onerror=alert(1)>\n[a](javascript:x)")
		_, rest, _ := strings.Cut(got, `<template id="summary-1">`)
		body, _, _ := strings.Cut(rest, "</template>")
		want := "<h1>Hi</h1>\n<p>&lt;/template&gt;&lt;script&gt;alert(1)&lt;/script&gt;</p>\n<details>image\n[a](javascript:x)\n</details>"
		if diff := cmp.Diff(want, strings.TrimSpace(body)); diff != "" {
			t.Error(diff)
		}
		if strings.Count(got, "<script") != 2 {
			t.Error("there is another script")
		}
	})
	t.Run("are left as they are written where they are very many", func(t *testing.T) {
		if got := page(strings.Repeat("a\n", maxPageSummaries/2+1)); strings.Contains(got, "<template") {
			t.Error("it is rendered")
		}
	})
}
