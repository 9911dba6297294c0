package mask

import (
	"cmp"
	"slices"
)

const (
	// blockSize is how many bytes of a large write are looked at together; it bounds the memory of a writer.
	blockSize = 128 << 10
	// maxHeld is how many bytes a writer keeps at most from one write to the next, escape sequences included.
	maxHeld = 2 * maxSequence
	// releaseLimit is the length in bytes from which the beginning of a secret stays held back at the end of a line.
	releaseLimit = 8
)

// Writer masks a stream. It is used by one goroutine at a time.
type Writer struct {
	set  *Set
	emit func([]byte)

	// kept is what was written and is still needed: kept[:done] has come out, the rest is held back. Before kept[0] the
	// sequence parser is in state begin.
	kept  []byte
	done  int
	begin sequence
	// covered is the index in kept after the last byte that was masked, and masked tells that no text came out since.
	covered int
	masked  bool
	// replaced tells that there was a secret in the stream.
	replaced bool

	// What follows is made again for each block, in the same memory.
	view    view
	matches []match
	open    []opening
	cuts    []cut
	around  []byte
	out     []byte
}

// match is a place where a pattern was found: raw[from:hiddenTo] inside an escape sequence if hiddenTo is not 0, and then
// text[textFrom:textTo].
type match struct {
	from, hiddenTo   int
	textFrom, textTo int
	rest             bool
}

// opening is a place where a pattern may begin that goes on after the end of the text.
type opening struct {
	from     int // index in raw
	size     int // length of what is there
	shortest int // length of the shortest such pattern
	text     int // index in the text, or -1 if it begins inside an escape sequence
}

// releasable tells whether the beginning of a secret may come out at the end of a line.
func (o opening) releasable() bool { return o.size < releaseLimit && 2*o.size <= o.shortest }

// cut is a piece of raw to be masked. One that is joined belongs to the secret before it, if that is next to it.
type cut struct {
	from, to int
	joined   bool
}

// flow tells what comes after a block.
type flow uint8

const (
	inWrite   flow = iota // more of the same write
	endWrite              // perhaps another write
	endStream             // nothing
)

// NewWriter returns a writer that passes what is written to emit, masked. It passes what it can before Write returns, in
// one or a few pieces. The pieces are only valid during the call: emit must not keep them.
func (s *Set) NewWriter(emit func([]byte)) *Writer {
	return &Writer{set: s, emit: emit}
}

// Write masks p. It never fails: it returns len(p) and nil.
func (w *Writer) Write(p []byte) (int, error) {
	m := w.set.matcher()
	if len(m.prefixes) == 0 && len(w.kept) == 0 { // nothing to look for, and nothing held back
		if len(p) > 0 {
			w.masked = false
			w.emit(p)
		}
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), blockSize)
		block := rest[:n]
		rest = rest[n:]
		if len(w.kept) > 0 {
			w.kept = append(w.kept, block...)
			block = w.kept
		}
		after := inWrite
		if len(rest) == 0 {
			after = endWrite
		}
		w.process(m, block, after)
	}
	return len(p), nil
}

// Flush ends the stream: it passes on what was held back. After it, the writer is as new.
func (w *Writer) Flush() {
	if len(w.kept) > w.done {
		w.process(w.set.matcher(), w.kept, endStream)
	}
	w.reset()
}

func (w *Writer) reset() {
	w.kept, w.done, w.begin, w.covered, w.masked = w.kept[:0], 0, sequence{}, 0, false
}

// whole masks a text as one stream.
func (w *Writer) whole(m *matcher, text string) {
	w.reset()
	w.replaced = false
	for len(text) > 0 {
		n := min(len(text), blockSize)
		w.kept = append(w.kept, text[:n]...)
		text = text[n:]
		after := inWrite
		if len(text) == 0 {
			after = endStream
		}
		w.process(m, w.kept, after)
	}
}

// process masks raw, which is what was kept and what came after it, and keeps what is needed of it.
func (w *Writer) process(m *matcher, raw []byte, after flow) {
	v := &w.view
	v.read(raw, w.begin)
	w.search(m)

	hold, first := len(raw), len(raw)
	if after != endStream && len(w.open) > 0 {
		slices.SortFunc(w.open, func(a, b opening) int { return cmp.Compare(a.from, b.from) })
		first = w.open[0].from
		hold = first
	}
	tooMuch := len(raw)-first > maxHeld
	if tooMuch || after == endWrite && v.lineEnd {
		hold = w.released()
	}
	if !tooMuch {
		limit := w.limit(hold)
		first = min(first, w.cut(hold, limit))
		if len(raw)-first <= maxHeld {
			w.keep(first, w.pass(hold, limit))
			return
		}
	}
	w.cut(len(raw), len(raw))
	w.cutOpen()
	w.pass(len(raw), len(raw))
	w.keepText()
}

// released returns the index in raw up to which text may come out when a line ends: the first opening that stays closed.
func (w *Writer) released() int {
	for _, o := range w.open {
		if !o.releasable() {
			return o.from
		}
	}
	return len(w.view.raw)
}

// search finds all matches and openings: in the text, and from inside each escape sequence.
func (w *Writer) search(m *matcher) {
	v := &w.view
	w.matches, w.open = w.matches[:0], w.open[:0]
	text := v.text
	for i := m.next(text, 0); i < len(text); i = m.next(text, i+1) {
		f := m.at(text[i:])
		if f.length > 0 {
			w.found(i, f)
		}
		if f.shortest > 0 {
			w.open = append(w.open, opening{v.rawAt(i), len(text) - i, f.shortest, i})
		}
	}
	w.searchCut(m)
	inText := len(w.matches)
	for _, q := range v.seqs {
		w.searchHidden(m, q)
	}
	if len(w.matches) > inText {
		slices.SortStableFunc(w.matches, func(a, b match) int { return cmp.Compare(a.from, b.from) })
	}
}

// found notes a match at index i of the text. Matches that overlap, and the parts of one secret, become one: text made of
// nothing but secrets takes no memory.
func (w *Writer) found(i int, f finding) {
	if n := len(w.matches); n > 0 {
		last := &w.matches[n-1]
		if i < last.textTo || i == last.textTo && f.rest {
			last.textTo = max(last.textTo, i+f.length)
			return
		}
	}
	w.matches = append(w.matches, match{from: w.view.rawAt(i), textFrom: i, textTo: i + f.length, rest: f.rest})
}

// searchHidden finds what begins inside the sequence q when its bytes are taken for text.
func (w *Writer) searchHidden(m *matcher, q hidden) {
	v := &w.view
	body, text := v.raw[q.from:q.to], v.text[q.text:]
	w.around = append(append(w.around[:0], body...), text[:min(len(text), prefixSize-1)]...)
	extended := false
	for k := 0; k < len(body); k++ {
		if len(w.around)-k >= prefixSize {
			if !m.mayBegin(w.around[k:]) {
				continue
			}
			if !extended {
				w.around = append(append(w.around[:0], body...), text[:min(len(text), 2*partSize)]...)
				extended = true
			}
		}
		f := m.at(w.around[k:])
		from := int(q.from) + k
		if f.length > 0 {
			w.matches = append(w.matches, match{
				from: from, hiddenTo: min(from+f.length, int(q.to)),
				textFrom: int(q.text), textTo: int(q.text) + max(k+f.length-len(body), 0), rest: f.rest,
			})
		}
		if f.shortest > 0 {
			w.open = append(w.open, opening{from, len(w.around) - k, f.shortest, -1})
		}
	}
}

// limit returns the index in raw that must not be passed, not even inside a secret that begins before index hold: the
// place in a sequence where another secret may begin.
func (w *Writer) limit(hold int) int {
	for _, o := range w.open {
		if o.from >= hold && o.text < 0 {
			return o.from
		}
	}
	return len(w.view.raw)
}

// cut makes the cuts, in order, for the matches that begin up to index hold of raw, and for those that touch them. What
// begins later is found again. It returns the index from which raw has to be kept to find again what is beyond the limit.
func (w *Writer) cut(hold, limit int) (first int) {
	w.cuts, first = w.cuts[:0], len(w.view.raw)
	ordered := true
	for _, f := range w.matches {
		if f.from > hold {
			break
		}
		joined := f.rest
		if f.hiddenTo > 0 {
			w.cuts = append(w.cuts, cut{f.from, f.hiddenTo, joined})
			joined = true
		}
		pieces := w.cutText(f.textFrom, f.textTo, joined)
		ordered = ordered && f.hiddenTo == 0 && pieces == 1

		end := w.cuts[len(w.cuts)-1].to
		hold = max(hold, end)
		if end > limit {
			first = min(first, f.from)
		}
	}
	if !ordered {
		w.sortCuts()
	}
	return first
}

func (w *Writer) sortCuts() {
	slices.SortStableFunc(w.cuts, func(a, b cut) int {
		if c := cmp.Compare(a.from, b.from); c != 0 || a.joined == b.joined {
			return c
		}
		// The joined one continues a secret that the other overlaps, so it comes first.
		if a.joined {
			return -1
		}
		return 1
	})
}

// cutText cuts text[from:to] out, one piece per segment, and returns the number of pieces.
func (w *Writer) cutText(from, to int, joined bool) int {
	v := &w.view
	pieces := 0
	for k := 0; from < to; k++ {
		if pieces == 0 {
			k = v.segment(from)
		}
		seg, end := v.segs[k], min(to, v.segmentEnd(k))
		start := int(seg.raw) + from - int(seg.text)
		w.cuts = append(w.cuts, cut{start, start + end - from, joined})
		from, joined = end, true
		pieces++
	}
	return pieces
}

// cutOpen cuts out what may be the beginning of a secret and cannot be held back any longer.
func (w *Writer) cutOpen() {
	v := &w.view
	text, hiddenTo := len(v.text), 0
	for _, o := range w.open {
		switch {
		case o.releasable():
		case o.text >= 0:
			text = min(text, o.text)
		case o.from >= hiddenTo:
			k := v.sequence(o.from)
			hiddenTo = int(v.seqs[k].to)
			w.cuts = append(w.cuts, cut{o.from, hiddenTo, false})
			text = min(text, int(v.seqs[k].text))
		}
	}
	w.cutText(text, len(v.text), false)
	w.sortCuts()
}

// pass lets out what comes before index hold of raw, and what is cut out up to the limit. It returns the index up to which
// raw is done.
func (w *Writer) pass(hold, limit int) int {
	raw, done := w.view.raw, w.done
	if len(w.cuts) == 0 {
		if hold > done {
			w.masked = w.masked && !w.view.hasText(done, hold)
			w.emit(raw[done:hold])
		}
		return max(done, hold)
	}
	out := w.out[:0]
	for _, c := range w.cuts {
		if c.to <= done {
			continue
		}
		if c.from >= limit {
			break
		}
		if c.from > done {
			w.masked = w.masked && !w.view.hasText(done, c.from)
			out = append(out, raw[done:c.from]...)
		}
		if !w.masked || !c.joined && c.from >= w.covered {
			out = append(out, Replacement...)
		}
		done, w.covered, w.masked, w.replaced = c.to, c.to, true, true
	}
	hold = w.reach(hold, done)
	if hold > done {
		w.masked = w.masked && !w.view.hasText(done, hold)
		out = append(out, raw[done:hold]...)
		done = hold
	}
	if len(out) > 0 {
		w.emit(out)
	}
	w.out = out
	return done
}

// reach returns the index of raw up to which bytes may come out now that raw[:done] is: hold, or all when only line breaks
// and escape sequences follow what was masked, since these come out after it in any case.
func (w *Writer) reach(hold, done int) int {
	if hold >= done || w.view.hasText(done, len(w.view.raw)) {
		return hold
	}
	for _, f := range w.matches {
		if f.hiddenTo > done {
			return hold
		}
	}
	for _, o := range w.open {
		if o.text < 0 {
			return hold
		}
	}
	return len(w.view.raw)
}

// keep keeps raw from index first on, of which raw[:done] is out.
func (w *Writer) keep(first, done int) {
	first = min(first, done)
	w.begin = w.view.stateAt(first)
	w.done = done - first
	w.covered = max(w.covered-first, 0)
	w.kept = append(w.kept[:0], w.view.raw[first:]...)
}

// keepText keeps what is needed of raw when that is too much to keep as it is. All of it is out, so the text where a
// pattern may begin will do, and a sequence that is not complete. What began inside a sequence is forgotten.
func (w *Writer) keepText() {
	v := &w.view
	var text, tail []byte
	w.begin = v.end
	for _, o := range w.open {
		if o.text >= 0 {
			text, tail = v.text[o.text:], v.unfinished()
			w.begin = sequence{}
			break
		}
	}
	// The memory of kept may be that of raw.
	w.around = append(append(w.around[:0], text...), tail...)
	w.kept = append(w.kept[:0], w.around...)
	w.done, w.covered = len(w.kept), len(w.kept)
}
