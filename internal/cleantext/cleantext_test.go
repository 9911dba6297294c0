package cleantext

import "testing"

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
