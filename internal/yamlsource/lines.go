package yamlsource

import (
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/diag"
)

// Lines returns where each line of a scalar's text is written, with the lines of the source. A line of white space has no place.
func (f *File) Lines(n *Node) []diag.SourceLine {
	lines := strings.Split(strings.TrimRight(n.Text, "\n"), "\n")
	out := make([]diag.SourceLine, len(lines))
	w := walker{text: f.text, node: n, at: n.start}
	w.enter()
	for i, line := range lines {
		count := 0
		for _, r := range line {
			if !isSpace(r) {
				count++
			}
		}
		if count == 0 {
			continue
		}
		start, end := w.next()
		span := f.text.at(start)
		_, limit := f.text.bounds(span.Line)
		for range count - 1 {
			if from, to := w.next(); from < limit { // a folded line ends where its first line in the source does
				end = to
			}
		}
		span.Length = max(1, utf8.RuneCount(f.text.data[start:min(end, limit)]))
		out[i] = diag.SourceLine{Span: span, Source: f.original.line(span.Line)}
	}
	return out
}
