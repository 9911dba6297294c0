package mask

import (
	"bytes"
	"sort"
)

// view is what a reader sees of raw bytes: the text without escape sequences and line breaks, and where it came from.
type view struct {
	raw  []byte
	text []byte
	segs []segment
	seqs []hidden
	// begin and end are the states of the sequence parser around raw.
	begin, end sequence
	// lineEnd tells that a line break follows the last byte of text.
	lineEnd bool

	store []byte // the memory of text when it is not raw itself
}

// segment says that the text from index text on, up to the next segment, is raw from index raw on.
type segment struct{ text, raw int32 }

// hidden is an escape sequence raw[from:to], without its ESC. The text after it goes on at index text.
type hidden struct{ from, to, text int32 }

// read makes v the view of raw, which begins in the given state.
func (v *view) read(raw []byte, begin sequence) {
	v.raw, v.begin, v.end, v.lineEnd = raw, begin, begin, false
	v.segs, v.seqs, v.store = v.segs[:0], v.seqs[:0], v.store[:0]

	at := 0
	if begin.phase != inText {
		at = v.hide(0)
	}
	marks := markers{raw: raw}
	next := marks.after(at)
	if at == 0 && next == len(raw) {
		v.segs = append(v.segs, segment{})
		v.text = raw
		return
	}
	for at < len(raw) {
		if next > at {
			v.segs = append(v.segs, segment{int32(len(v.store)), int32(at)})
			v.store = append(v.store, raw[at:next]...)
			v.lineEnd = false
			at = next
			continue
		}
		if raw[at] == esc {
			v.end = started
			at = v.hide(at + 1)
		} else {
			v.lineEnd = true
			at++
		}
		next = marks.after(at)
	}
	v.text = v.store
}

// hide notes the sequence that goes on at raw[at:], and returns where it ends.
func (v *view) hide(at int) int {
	n, end := v.end.skip(v.raw[at:])
	v.end = end
	if n > 0 {
		v.seqs = append(v.seqs, hidden{int32(at), int32(at + n), int32(len(v.store))})
	}
	return at + n
}

// markers finds the bytes that are not text. Each kind is looked for on its own, once, which is many times faster than
// looking at each byte: most logs have no \r and no ESC.
type markers struct {
	raw         []byte
	lf, cr, esc int
	begun       bool
}

// after returns the index of the first marker at or after index at, or the length of raw.
func (m *markers) after(at int) int {
	if !m.begun {
		m.lf, m.cr, m.esc, m.begun = -1, -1, -1, true
	}
	if m.lf < at {
		m.lf = index(m.raw, at, lf)
	}
	if m.cr < at {
		m.cr = index(m.raw, at, cr)
	}
	if m.esc < at {
		m.esc = index(m.raw, at, esc)
	}
	return min(m.lf, m.cr, m.esc)
}

// index returns the index of the first c at or after index at, or the length of p.
func index(p []byte, at int, c byte) int {
	if i := bytes.IndexByte(p[at:], c); i >= 0 {
		return at + i
	}
	return len(p)
}

// segment returns the number of the segment that holds the text at index i.
func (v *view) segment(i int) int {
	return sort.Search(len(v.segs), func(k int) bool { return int(v.segs[k].text) > i }) - 1
}

// rawAt returns the index in raw of the text at index i.
func (v *view) rawAt(i int) int {
	seg := v.segs[v.segment(i)]
	return int(seg.raw) + i - int(seg.text)
}

// segmentEnd returns the index in text after segment k.
func (v *view) segmentEnd(k int) int {
	if k+1 < len(v.segs) {
		return int(v.segs[k+1].text)
	}
	return len(v.text)
}

// hasText reports whether raw[from:to] has a byte of text.
func (v *view) hasText(from, to int) bool {
	if from >= to {
		return false
	}
	k := sort.Search(len(v.segs), func(k int) bool {
		seg := v.segs[k]
		return int(seg.raw)+v.segmentEnd(k)-int(seg.text) > from
	})
	return k < len(v.segs) && int(v.segs[k].raw) < to
}

// sequence returns the number of the first sequence that ends after raw[at].
func (v *view) sequence(at int) int {
	return sort.Search(len(v.seqs), func(k int) bool { return int(v.seqs[k].to) > at })
}

// stateAt returns the state of the sequence parser before raw[at].
func (v *view) stateAt(at int) sequence {
	if at >= len(v.raw) {
		return v.end
	}
	k := v.sequence(at)
	if k == len(v.seqs) || int(v.seqs[k].from) > at {
		return sequence{}
	}
	q := v.seqs[k]
	state := started
	if q.from == 0 {
		state = v.begin
	}
	_, state = state.skip(v.raw[q.from:at])
	return state
}

// unfinished returns the sequence at the end of raw that is still open, with its ESC if raw has it.
func (v *view) unfinished() []byte {
	if v.end.phase == inText {
		return nil
	}
	return v.raw[len(v.raw)-min(v.end.size, len(v.raw)):]
}
