package mask

import (
	"bytes"
	"slices"
)

// ellipsis is what stands where a text was cut to a length that a message can hold.
const ellipsis = "…"

// maxClosers is how many quotes and brackets may stand between a text that was cut and its ellipsis.
const maxClosers = 4

// searchCut finds the beginnings of secrets that are followed by an ellipsis: who cuts a text knows no secrets, and the rest of one is gone
// when it is masked. A beginning that may come out at the end of a line may also come out here. At the end of the text it notes what an
// ellipsis may follow.
func (w *Writer) searchCut(m *matcher) {
	text, from, matches := w.view.text, 0, len(w.matches)
	for {
		at := bytes.Index(text[from:], []byte(ellipsis))
		if at < 0 {
			break
		}
		at += from
		end := beforeClosers(text[from:at]) + from
		if i, _ := m.begins(text, from, end); i < end {
			w.matches = append(w.matches, match{from: w.view.rawAt(i), textFrom: i, textTo: end, rest: true})
		}
		from = at + len(ellipsis)
	}
	if len(w.matches) > matches {
		slices.SortStableFunc(w.matches, func(a, b match) int { return a.from - b.from })
	}
	if w.view.lineEnd {
		return
	}
	left := text[from:]
	for n := len(ellipsis) - 1; n > 0; n-- {
		if before, is := bytes.CutSuffix(left, []byte(ellipsis[:n])); is {
			left = before
			break
		}
	}
	if end := from + beforeClosers(left); end < len(text) {
		if i, shortest := m.begins(text, from, end); i < end {
			w.open = append(w.open, opening{w.view.rawAt(i), end - i, shortest, i})
		}
	}
}

// beforeClosers returns the length of the text without the quotes and brackets at its end.
func beforeClosers(text []byte) int {
	end := len(text)
	for end > 0 && len(text)-end < maxClosers && bytes.IndexByte([]byte("\"'`\\)]}>"), text[end-1]) >= 0 {
		end--
	}
	return end
}

// begins returns the first index from which on text[:end] is the beginning of a pattern that must not come out, and the length of the shortest
// such pattern; end if there is none.
func (m *matcher) begins(text []byte, from, end int) (i, shortest int) {
	for i = max(from, end-2*partSize+1); i+prefixSize <= end; i++ {
		if !m.mayBegin(text[i:]) {
			continue
		}
		f := m.at(text[i:end])
		if o := (opening{size: end - i, shortest: f.shortest}); f.shortest > 0 && !o.releasable() {
			return i, f.shortest
		}
	}
	return end, 0
}
