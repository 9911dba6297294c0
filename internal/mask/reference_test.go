package mask

import "strings"

// The reference is the definition of what a Writer does, written to be read and not to be fast: one byte at a time, every
// pattern at every place, on a whole text.

// kind is what a byte of a log is to a reader.
type kind uint8

const (
	textByte kind = iota
	breakByte
	escapeByte   // the ESC that begins a sequence
	sequenceByte // the rest of a sequence
)

// kinds classifies the bytes of a text.
func kinds(text string) []kind {
	all := make([]kind, len(text))
	start := -1 // where the sequence that is being read begins
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n' || c == '\r':
			all[i], start = breakByte, -1
			continue
		case c == 0x1b:
			all[i], start = escapeByte, i
			continue
		case start < 0 || i-start >= maxSequence:
			start = -1
			continue
		}
		ok, done := false, false
		first, kind := i == start+1, text[start+1]
		switch {
		case strings.ContainsRune("]PX^_", rune(kind)):
			ok, done = true, !first && (c == 7 || c == 0x18 || c == 0x1a)
		case kind == '[':
			done = !first && c >= '@' && c <= '~'
			ok = done || first || c >= ' ' && c <= '?'
		default:
			done = c >= '0' && c <= '~'
			ok = done || c >= ' ' && c <= '/'
		}
		if ok {
			all[i] = sequenceByte
		}
		if !ok || done {
			start = -1
		}
	}
	return all
}

// places returns the indices of the bytes that are read as text from index start on: all text, and if start is inside a
// sequence also the rest of that.
func places(all []kind, start int) []int {
	var at []int
	inSequence := true
	for i := start; i < len(all); i++ {
		inSequence = inSequence && all[i] == sequenceByte
		if all[i] == textByte || inSequence {
			at = append(at, i)
		}
	}
	return at
}

// referenceMask masks a text. It knows no limits to what is held back.
func referenceMask(patterns []pattern, text string) string {
	all := kinds(text)
	hidden := make([]bool, len(text))
	begins := make([]bool, len(text)) // a secret begins here
	inside := make([]bool, len(text)) // a secret goes on here
	for start := range len(text) {
		if all[start] != textByte && all[start] != sequenceByte {
			continue
		}
		at := places(all, start)
		var read strings.Builder
		for _, i := range at[:min(len(at), 2*partSize)] {
			read.WriteByte(text[i])
		}
		for _, p := range patterns {
			if !strings.HasPrefix(read.String(), p.text) {
				continue
			}
			for k, i := range at[:len(p.text)] {
				hidden[i] = true
				if k > 0 || p.rest {
					inside[i] = true
				} else {
					begins[i] = true
				}
			}
		}
	}
	referenceCut(patterns, text, all, hidden, inside)
	var out strings.Builder
	masked := false // the last thing a reader saw was a mask
	for i := range len(text) {
		switch {
		case !hidden[i]:
			out.WriteByte(text[i])
			masked = masked && all[i] != textByte
		case !masked || begins[i] && !inside[i]:
			out.WriteString(Replacement)
			masked = true
		}
	}
	return out.String()
}

// referenceCut marks the beginnings of secrets before an ellipsis.
func referenceCut(patterns []pattern, text string, all []kind, hidden, inside []bool) {
	var at []int
	var read strings.Builder
	for i := range len(text) {
		if all[i] == textByte {
			at = append(at, i)
			read.WriteByte(text[i])
		}
	}
	from := 0
	for _, piece := range strings.SplitAfter(read.String(), ellipsis) {
		shown, isCut := strings.CutSuffix(piece, ellipsis)
		for k := 0; k < maxClosers && shown != "" && strings.ContainsAny(shown[len(shown)-1:], "\"'`\\)]}>"); k++ {
			shown = shown[:len(shown)-1]
		}
		for i := 0; isCut && i+MinLength <= len(shown); i++ {
			shortest := 0
			for _, p := range patterns {
				if len(p.text) > len(shown)-i && strings.HasPrefix(p.text, shown[i:]) && (shortest == 0 || len(p.text) < shortest) {
					shortest = len(p.text)
				}
			}
			if o := (opening{size: len(shown) - i, shortest: shortest}); shortest > 0 && !o.releasable() {
				for _, k := range at[from+i : from+len(shown)] {
					hidden[k], inside[k] = true, true
				}
				break
			}
		}
		from += len(piece)
	}
}
