package ui

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/cleantext"
)

// cleanText makes text that others chose (names, titles, messages) safe for one line of ours.
func cleanText(s string) string { return cleantext.Plain(s) }

// cleanLabel is cleanText for names, of which a bounded part is shown.
func cleanLabel(s string) string {
	return truncate(strings.TrimSpace(cleanText(shortened(s, maxLabelWidth*utf8.UTFMax))), maxLabelWidth, "...")
}

// maxLabelWidth bounds how much of one name or title is shown, in cells.
const maxLabelWidth = 80

// shortened cuts s to n bytes, so that huge text costs nothing; a rune that is cut in two is cleaned away later.
func shortened(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// lastOverwrite returns what is left of a line when carriage returns in it have overwritten what stood before them.
func lastOverwrite(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}

// hasControl reports whether a line needs cleaning at all.
func hasControl(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return true
		}
	}
	return false
}
