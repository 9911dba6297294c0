package mask

import (
	"encoding/binary"
	"math/bits"
)

const (
	// blockBytes is how many bytes are looked up at a time.
	blockBytes = 3
	// minWindow is the length of the shortest pattern from which skipping pays: a shorter one allows steps of a few bytes only.
	minWindow = 7
	// maxWindow bounds the length of the window, and so the number of blocks of a pattern; manyWindow does where there are many patterns.
	maxWindow, manyWindow = partSize, 32
	// minSkipBits and maxSkipBits bound the table, in bytes as powers of two: 4 KiB to 128 KiB.
	minSkipBits, maxSkipBits = 12, 17
	// skipSpread is how many entries there are at least for every block, as a power of two.
	skipSpread = 3
)

// skipper finds windows of text that may be the beginning of a pattern, without looking at every byte: the last bytes of a window say how far
// it can be moved (Wu and Manber's algorithm). It is nil where it would not pay.
type skipper struct {
	window int     // the length of the shortest pattern, at most maxWindow
	skips  []uint8 // by the hash of the last bytes of the window
	shift  uint32
}

// newSkipper makes a skipper for the patterns.
func newSkipper(patterns []pattern) *skipper {
	window := maxWindow
	for _, p := range patterns {
		window = min(window, len(p.text))
	}
	width := skipWidth(len(patterns), window)
	if width > maxSkipBits {
		window = min(window, manyWindow)
		width = skipWidth(len(patterns), window)
	}
	if len(patterns) == 0 || window < minWindow || width > maxSkipBits {
		return nil
	}
	s := &skipper{window: window, shift: uint32(32 - width), skips: make([]uint8, 1<<width)}
	for i := range s.skips {
		s.skips[i] = uint8(window - blockBytes + 1)
	}
	for _, p := range patterns {
		for end := blockBytes; end <= window; end++ {
			at := s.hash(uint32(p.text[end-3])<<8 | uint32(p.text[end-2])<<16 | uint32(p.text[end-1])<<24)
			s.skips[at] = min(s.skips[at], uint8(window-end))
		}
	}
	return s
}

// skipWidth is the size of the table for so many patterns, as a power of two.
func skipWidth(patterns, window int) int {
	return max(bits.Len(uint(patterns*(window-blockBytes+1)))+skipSpread, minSkipBits)
}

// hash takes the block in the upper three bytes.
func (s *skipper) hash(block uint32) uint32 { return block * hashFactor >> (s.shift & 31) }

// next returns the first index from i on where a pattern may begin of which the whole window is there, and true, or the index up to which
// there is none.
func (s *skipper) next(m *matcher, text []byte, i int) (int, bool) {
	mask := uint32(len(s.skips) - 1)
	for end := i + s.window; ; {
		if end > len(text) {
			return end - s.window, false
		}
		block := binary.LittleEndian.Uint32(text[end-4:]) &^ 0xff
		skip := int(s.skips[s.hash(block)&mask])
		if skip > 0 {
			end += skip
			continue
		}
		if m.mayBegin(text[end-s.window:]) {
			return end - s.window, true
		}
		end++
	}
}
