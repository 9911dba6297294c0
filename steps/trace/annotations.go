package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// Annotations returns how many annotations the steps of the run made at each level, those that the trace does not keep not counted.
func (t *Trace) Annotations() map[event.AnnotationLevel]int {
	counts := map[event.AnnotationLevel]int{}
	t.Walk(func(s *Step, _ int) {
		for _, a := range s.Annotations {
			counts[a.Level]++
		}
	})
	return counts
}

// annotationLine shows an annotation as one line: "error  app.js:3:5  the text".
func annotationLine(a event.Annotation) string {
	parts := []string{string(cmp.Or(a.Level, event.AnnotationNotice))}
	if at := annotationPlace(a); at != "" {
		parts = append(parts, at)
	}
	text := strings.TrimSpace(a.Message)
	if a.Title != "" {
		text = a.Title + ": " + text
	}
	if a.Code != "" {
		text += " (" + a.Code + ")"
	}
	return strings.Join(append(parts, text), "  ")
}

// annotationPlace is "file:line:column", as far as it is known.
func annotationPlace(a event.Annotation) string {
	place := a.File
	if place != "" && a.Line > 0 {
		place += fmt.Sprintf(":%d", a.Line)
		if a.Column > 0 {
			place += fmt.Sprintf(":%d", a.Column)
		}
	}
	return place
}

// sortedAnnotations returns annotations in an order that does not depend on how the streams of a process mix.
func sortedAnnotations(list []event.Annotation) []event.Annotation {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b event.Annotation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Level, b.Level), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// annotationText is what diff compares: a line for each annotation, without what varies in logs.
func annotationText(s *Step, n *normalizer) string {
	var b strings.Builder
	for _, a := range sortedAnnotations(s.Annotations) {
		b.WriteString(n.line(strings.ReplaceAll(annotationLine(a), "\n", " ")) + "\n")
	}
	if s.AnnotationsLeftOut > 0 {
		fmt.Fprintf(&b, "and %d more\n", s.AnnotationsLeftOut)
	}
	return b.String()
}

// summaryText is what diff compares: the lines of the summary, without what varies in logs.
func summaryText(s *Step, n *normalizer) string {
	var b strings.Builder
	for _, line := range splitLines(s.Summary) {
		b.WriteString(n.line(line) + "\n")
	}
	return b.String()
}

// subjectTexts are the digests of what the step says that it made, by name.
func subjectTexts(s *Step) map[string]string {
	texts := make(map[string]string, len(s.Subjects))
	for _, subject := range s.Subjects {
		texts[subject.Name] = subject.Digest
	}
	return texts
}

// lineCount is how many lines a text has.
func lineCount(text string) int { return len(splitLines(text)) }
