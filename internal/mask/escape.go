package mask

// The bytes that are not text.
const (
	esc = 0x1b
	lf  = '\n'
	cr  = '\r'
)

// maxSequence is the number of bytes after which an escape sequence that has no end is taken for text. It leaves room for
// hyperlinks; an unterminated window title does not swallow the log.
const maxSequence = 4096

// phase is the part of an escape sequence that comes next.
type phase uint8

const (
	inText         phase = iota // not in a sequence
	afterEscape                 // ESC was read
	inIntermediate              // ESC and bytes such as ( were read, a final byte is due
	inControl                   // CSI: parameters, intermediate bytes, a final byte
	inString                    // OSC, DCS, SOS, PM and APC: anything up to BEL or another ESC
)

// sequence is the state of the escape sequence parser between two bytes.
type sequence struct {
	phase phase
	size  int // bytes of the sequence so far
}

// started is the state after an ESC.
var started = sequence{phase: afterEscape, size: 1}

// skip reads the bytes of p that belong to the sequence s. It returns how many there are, and the state after them: in
// text when the sequence has ended, in the sequence when p ends first. A sequence ends before an ESC (which begins the
// next one, as in the terminator ESC \), before a line break and before a byte that cannot be part of it.
func (s sequence) skip(p []byte) (int, sequence) {
	for i, c := range p {
		if c == esc || c == lf || c == cr || s.size >= maxSequence {
			return i, sequence{}
		}
		next, belongs := s.phase.step(c)
		if !belongs {
			return i, sequence{}
		}
		if next == inText {
			return i + 1, sequence{}
		}
		s.phase = next
		s.size++
	}
	return len(p), s
}

// step returns the phase after c, and whether c belongs to the sequence at all.
func (p phase) step(c byte) (next phase, belongs bool) {
	switch p {
	case afterEscape:
		switch {
		case c == '[':
			return inControl, true
		case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
			return inString, true
		case c >= 0x20 && c <= 0x2f:
			return inIntermediate, true
		}
		return inText, c >= 0x30 && c <= 0x7e
	case inIntermediate:
		if c >= 0x20 && c <= 0x2f {
			return inIntermediate, true
		}
		return inText, c >= 0x30 && c <= 0x7e
	case inControl:
		if c >= 0x20 && c <= 0x3f {
			return inControl, true
		}
		return inText, c >= 0x40 && c <= 0x7e
	case inString:
		const bel, can, sub = 0x07, 0x18, 0x1a
		if c == bel || c == can || c == sub {
			return inText, true
		}
		return inString, true
	}
	return inText, false
}
