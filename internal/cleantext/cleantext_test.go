package cleantext

import (
	"bytes"
	"slices"
	"testing"
)

func TestWhatActsOrHidesIsShownAsItsNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                "plain",
		"größe 日本 ✓":           "größe 日本 ✓",
		"a\x1b[2Jb":            `a\x1b[2Jb`,
		"a\x00\x07\x7fb":       `a\x00\x07\x7fb`,
		"a\u009bb":             `a\u009bb`,
		"\xff\xfe":             `\xff\xfe`,
		"a\u202eb\u2066c":      `a\u202eb\u2066c`,
		"pay\u200bpal\ufeff":   `pay\u200bpal\ufeff`,
		"tag\U000e0041":        `tag\ue0041`,
		"two\nlines\tand\rone": "two\nlines\tand\\x0done",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) is %q, want %q", in, got, want)
		}
	}
	if got, want := Line("a\r\nb\tc\x1b]0;x\x07"), `a b c\x1b]0;x\x07`; got != want {
		t.Errorf("Line gives %q, want %q", got, want)
	}
}

func TestOutputKeepsItsColoursAndNothingElse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[2J\ttab":                     "\x1b[31mred\ttab\x1b[0m",
		"a\x1b]0;title\x07b\u009bc":                   "abc",
		"bidi \u202e\u2066\u200f hidden \u200b\ufeff": "bidi  hidden ",
		"\xff größe":                                  "\ufffd größe",
	} {
		if got := string(AppendLine(nil, []byte(in), true)); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got, want := Plain("a\r\nb\x1b[31mc\u200bd"), "a bcd"; got != want {
		t.Errorf("Plain gives %q, want %q", got, want)
	}
}

// TestJSONIsTheSameInPieces writes one byte at a time, so that characters are cut.
func TestJSONIsTheSameInPieces(t *testing.T) {
	t.Parallel()
	in := []byte("{\"a\": \"b\u202e\U000e0041 größe 日本\"}\n")
	for size := 1; size <= len(in); size++ {
		var out bytes.Buffer
		w := &JSONWriter{W: &out}
		for piece := range slices.Chunk(in, size) {
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got, want := out.String(), string(JSON(in)); got != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
}

func TestJSONMeansTheSameAndShowsWhatItHolds(t *testing.T) {
	t.Parallel()
	in := "{\"a\\u202e\": \"b\u202e\U000e0041 größe\"}\n"
	if got, want := string(JSON([]byte(in))), "{\"a\\u202e\": \"b\\u202e\\udb40\\udc41 größe\"}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
